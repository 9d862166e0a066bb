"""Recommendations: the choice, the reasons, and that the cookbook and the measurement are both heard."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.assessment.assessment import NO_SHARES
from microveil.assessment.measuring import chosen, entries
from microveil.core.errors import ParameterError
from microveil.methods import method_named


def firms(rows: int = 150, between: float = 0.6) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    common = rng.standard_normal(rows)
    frame = pd.DataFrame(rng.standard_normal((rows, 3)), columns=["tax", "energy", "rent"])
    frame["income"] = between * common + rng.standard_normal(rows)
    return frame + between * common[:, None]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few candidates and quick measures: it is the choice that is tested."""
    module = importlib.import_module("microveil.studies.recommend")
    ladders = {
        "noise": [("noise", {"noise_sd_ratio": 0.1}), ("noise", {"noise_sd_ratio": 5.0})],
        "pca": [("pca", {"components": 1}), ("pca", {})],
    }
    monkeypatch.setattr(module, "DOSES", ladders)
    monkeypatch.setattr(module, "MEASURES", ("dbrl", "mahalanobis_linkage", "pil"))


@pytest.mark.usefixtures("few")
def test_the_least_loss_within_the_limit_is_advised_with_reasons() -> None:
    found = mv.recommend(firms(), limit={"dbrl": 0.1}, seed=1, repeats=5, workers=1)
    ends = {label: found.study.summary(label, "dbrl").high for label in found.study.figures}
    kept = [label for label, end in ends.items() if end is not None and end <= 0.1]
    losses = {label: found.study.summary(label, "pil").mean for label in kept}
    assert found.label == min(losses, key=lambda label: losses[label])
    assert (found.method, dict(found.params)) == found.study.methods[found.label]
    assert list(found.runners_up) == sorted(losses, key=lambda label: losses[label])[1:4]
    word = "keeps" if len(kept) == 1 else "keep"
    said = f"candidates of the last round {word} dbrl at most 0.1 in 95 % of the releases"
    assert found.reasons[0] == f"{len(kept)} of the 4 {said}"
    assert any("the cookbook says pca" in reason for reason in found.reasons)
    assert {row.measure for row in found.expected} == {"dbrl", "mahalanobis_linkage", "pil", "worst_attack"}


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_the_smallest_dose_that_keeps_the_limit_is_told_for_each_method() -> None:
    found = mv.recommend(firms(), limit={"dbrl": 0.2}, seed=1, repeats=3, workers=1)
    # So much noise hides every record, and loses more than a shuffle of the columns: it is never advised.
    assert found.smallest_dose == {"noise": None, "pca": "pca"}
    assert "loses more than each column shuffled on its own" in found.left_out["noise noise_sd_ratio=5.0"]
    loose = mv.recommend(firms(), limit={"dbrl": 1.0}, seed=1, repeats=1, workers=1)
    assert "in every release (4, too few" in loose.reasons[0]
    assert loose.smallest_dose == {"noise": "noise noise_sd_ratio=0.1", "pca": "pca components=1"}


@pytest.mark.usefixtures("few")
def test_a_choice_on_some_rows_is_checked_on_all(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("microveil.studies.race")
    monkeypatch.setattr(module, "ROWS", 100)
    options: dict[str, Any] = {"seed": 1, "repeats": 1, "workers": 1}
    found = mv.recommend(firms(400), limit={"dbrl": 0.5}, **options)
    said = [reason for reason in found.reasons if "on all 400 rows" in reason]
    assert found.method
    assert len(said) == 1
    assert "checked on all 400 rows: one release keeps the limit there, too" in said[0]
    assert "dbrl 0" in said[0]
    # Statistics that move by as much lose more where there are more rows: what was chosen on a few fails on all.
    noise = [("noise", {"noise_sd_ratio": 0.3})]
    strict = mv.recommend(firms(4_000), limit={"pil": 0.5}, methods=noise, **options)
    assert strict.method is None
    assert strict.left_out == {"noise noise_sd_ratio=0.3": "on all 4,000 rows it does not keep the limit"}
    hurried = mv.recommend(firms(400), limit={"dbrl": 0.5}, time=0.5, **options)
    assert any("not checked on all 400 rows" in reason for reason in hurried.reasons)


@pytest.mark.usefixtures("few")
def test_a_limit_that_none_keeps_is_said() -> None:
    found = mv.recommend(firms(), limit={"pil": 1e-9}, seed=1, repeats=2, workers=1)
    assert found.method is None
    assert "no method keeps pil at most 1e-09" in found.reasons[0]
    assert "nearest comes" in found.reasons[0]
    assert found.to_dict()["label"] is None


@pytest.mark.parametrize(
    ("between", "sensitive", "said"),
    [
        (1.5, ["income"], "both are high"),
        (0.1, ["income"], "the cookbook says microaggregation"),
        (0.1, ["income", "tax"], "the cookbook says microaggregation"),
    ],
)
def test_the_cookbook_speaks_of_sensitive_columns(
    between: float, sensitive: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("microveil.studies.recommend")
    monkeypatch.setattr(module, "MEASURES", ("dbrl", "interval_disclosure_own", "pil"))
    monkeypatch.setattr(
        module, "selective", lambda chosen, others: {"ipso": [("ipso", {"confidential": chosen, "public": others})]}
    )
    data = firms(between=between)
    found = mv.recommend(
        data, sensitive=sensitive, limit={"interval_disclosure_own": 0.5}, seed=1, repeats=2, workers=1
    )
    assert any(said in reason for reason in found.reasons)
    assert found.method == "ipso"
    assert found.params["confidential"] == sensitive
    # Risk is that of the sensitive columns; what the others are known by links every record.
    assert found.study.summary("ipso", "dbrl").mean < 0.2


def test_what_leaves_the_sensitive_column_is_never_advised_and_the_reasons_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = importlib.import_module("microveil.studies.recommend")
    monkeypatch.setattr(module, "MEASURES", ("dbrl", "pil"))
    idle = [("noise", {"confidential": ["tax", "rent"]})]
    monkeypatch.setattr(module, "selective", lambda chosen, _: {"noise": idle, "ipso": [("ipso", {})]})
    found = mv.recommend(firms(), sensitive=["income"], limit={"dbrl": 1.0}, seed=1, repeats=2, workers=1)
    assert found.method == "ipso"
    assert found.smallest_dose == {"noise": None, "ipso": "ipso"}
    assert any("noise is left out: a sensitive column keeps a correlation of 1.00" in one for one in found.reasons)
    monkeypatch.setattr(module, "selective", lambda chosen, _: {"noise": idle})
    alone = mv.recommend(firms(), sensitive=["income"], limit={"dbrl": 1.0}, seed=1, repeats=2, workers=1)
    assert alone.method is None
    assert "nearest" not in alone.reasons[0]


@pytest.mark.usefixtures("few")
def test_advice_is_for_the_run_that_has_the_same_roles() -> None:
    data = firms()
    data["weight"] = np.random.default_rng(5).uniform(1, 20, len(data))
    data["region"] = np.arange(len(data)) % 2
    roles: dict[str, Any] = {"confidential": ["tax", "energy", "income"], "strata": ["region"], "weight": "weight"}
    found = mv.recommend(data, limit={"dbrl": 1.0}, seed=1, repeats=2, workers=1, **roles)
    assert found.method is not None
    assert {name: found.params[name] for name in roles} == roles
    release = mv.protect(data, found.method, seed=1, **found.params)
    changed = [name for name in data.columns if release.data[name].tolist() != data[name].tolist()]
    assert sorted(changed) == sorted(roles["confidential"])
    assert "weight" not in mv.recommend(data, limit={"dbrl": 1.0}, seed=1, repeats=1, workers=1).params


def test_weights_and_strata_are_no_columns_beside_the_sensitive_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("microveil.studies.recommend")
    monkeypatch.setattr(module, "MEASURES", ("dbrl", "pil"))
    asked: list[Any] = []
    monkeypatch.setattr(
        module,
        "selective",
        lambda chosen, public: asked.append(public) or {"ipso": [("ipso", {"confidential": chosen})]},
    )
    plain = firms()
    data = plain.assign(weight=np.linspace(1, 9, len(plain)), region=np.arange(len(plain)) % 2)
    options: dict[str, Any] = {"sensitive": ["income"], "limit": {"dbrl": 1.0}, "seed": 1, "repeats": 1, "workers": 1}
    with_roles = mv.recommend(data, weight="weight", strata="region", **options)
    without = mv.recommend(plain, **options)
    assert asked == [["tax", "energy", "rent"]] * 2
    told = [next(reason for reason in one.reasons if "correlations" in reason) for one in (with_roles, without)]
    assert told[0].partition("correlations are")[2] == told[1].partition("correlations are")[2]
    mv.recommend(data, weight="weight", strata="region", public=["rent"], **options)
    assert asked[-1] == ["rent"]


def test_the_worst_attack_is_that_of_an_assessment() -> None:
    module = importlib.import_module("microveil.studies.recommend")
    known = entries()
    attacks = [name for name in chosen("default") if known[name].kind == "risk" and name not in NO_SHARES]
    assert set(attacks) == {name for name in module.MEASURES if known[name].kind == "risk"}


def test_every_candidate_can_be_planned() -> None:
    module = importlib.import_module("microveil.studies.recommend")
    ladders: list[Any] = [*module.DOSES.values(), *module.selective(["a"], ["b", "c"]).values()]
    for ladder in ladders:
        for method, parameters in ladder:
            roles = {"confidential", "public"}
            method_named(method).plan({name: value for name, value in parameters.items() if name not in roles})


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ParameterError, match="sensitive: no column named"):
        mv.recommend(firms(), sensitive=[])
    with pytest.raises(ParameterError, match="there is no column 'incom'"):
        mv.recommend(firms(), sensitive="incom", repeats=1, workers=1)


@pytest.mark.usefixtures("few")
def test_what_one_release_cannot_show_is_not_said_to_be_kept() -> None:
    told: list[float] = []
    found = mv.recommend(
        firms(), limit=1e-4, seed=1, repeats=2, workers=1, progress=lambda _, share: told.append(share)
    )
    assert found.method is not None
    assert not found.sure
    assert found.study.summary(found.label or "", "worst_attack").mean > 1e-4
    assert "as far as one release shows" in found.reasons[0]
    assert "on the average" not in found.reasons[0]
    assert "as far as one release shows" in found.why
    assert told == sorted(told), "progress never goes back"
