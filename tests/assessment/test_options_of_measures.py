"""Options of measures and weights of scores: used, noted, refused where they make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import microveil as mv
from microveil.errors import ParameterError

# --- Options of measures, weights of scores


def pictures() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    data = rng.uniform(0, 255, (40, 20))
    return data, data + rng.normal(0, 30, data.shape)


def test_options_of_measures_are_used_and_noted() -> None:
    data, released = pictures()
    ids = ["ssim", "kl_ridge", "near_leakage", "interval_disclosure_sd"]
    plain = mv.assess(data, released, measures=ids, rules=None, seed=1, sanity=False)
    given = {"ssim": {"window": "gaussian"}, "kl_ridge": {"ridge": 0.5}, "near_leakage": {"eps": 0.3}}
    given["interval_disclosure_sd"] = {"widths": [0.5]}
    found = mv.assess(data, released, measures=ids, rules=None, seed=1, sanity=True, measure_options=given)
    for name, options in given.items():
        assert (found[name].value, found[name].parts) != (plain[name].value, plain[name].parts)
        assert all(f"{key} = " in found[name].note for key in options)
    assert found.sanity is not None
    assert found.sanity.identity["ssim"].note.startswith("with window")


def test_weights_of_a_score_are_used_and_noted() -> None:
    data, released = pictures()
    options = {"measures": ["summary"], "rules": None, "seed": 1, "sanity": False}
    parts = mv.assess(data, released, **options)["summary"].parts
    found = mv.assess(data, released, **options, measure_options={"summary": {"dbrl": 3, "pil7": 0}})["summary"]
    expected = (3 * parts["dbrl"] + parts["propensity_2"] + parts["interval_disclosure_own"]) / 5
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert "dbrl = 3" in found.note


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssimm": {"window": 7}}, "did you mean 'ssim'"),
        ({"ssim": {"windows": 7}}, "did you mean 'window'"),
        ({"ssim": {"window": "seven"}}, "ssim.window"),
        ({"ssim": {"window": True}}, "ssim.window"),
        ({"ssim": {"window": 4}}, "odd number"),
        ({"kl_ridge": {"ridge": 0}}, "above 0"),
        ({"dbrl": {"seed": 1}}, "use seed="),
        ({"membership": {"control": 1}}, "use holdout="),
        ({"selectivity": {"sensitive": [1]}}, "use sensitive="),
        ({"pil": {"window": 1}}, "has none"),
        ({"summary": {"pil": 1}}, "no part 'pil'"),
        ({"summary": {"pil7": -1}}, "0 or more"),
        (
            {"summary": dict.fromkeys(("pil7", "propensity_2", "dbrl", "interval_disclosure_own"), 0)},
            "all weights are 0",
        ),
        (["ssim.window=7"], "by the id of a measure"),
        ({"near_leakage": {"eps": 0.2}}, "near_leakage is not measured"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: Any, problem: str) -> None:
    data, released = pictures()
    with pytest.raises(ParameterError, match=problem):
        mv.assess(data, released, measures=["ssim", "kl_ridge"], measure_options=given, sanity=False, rules=None)


def test_a_policy_fixes_options_and_nobody_overrides_them() -> None:
    data, released = pictures()
    policy = {
        "policy": {"name": "p", "version": 1},
        "limits": {"summary": {"at_most": 0.9}},
        "options": {"summary": {"dbrl": 3}},
    }
    options = {"measures": ["ks"], "rules": None, "seed": 1, "sanity": False}
    found = mv.assess(data, released, **options, policy=policy)
    weighed = mv.assess(data, released, **{**options, "measures": ["summary"]}, measure_options=policy["options"])
    assert found["summary"].value == weighed["summary"].value
    assert found.verdict is not None
    assert found.verdict.met
    with pytest.raises(ParameterError, match="the policy has its own of summary"):
        mv.assess(data, released, **options, policy=policy, measure_options={"summary": {"dbrl": 0}})
    with pytest.raises(ParameterError, match="policy: options: there is no measure 'sumary'"):
        mv.assess(data, released, **options, policy={**policy, "options": {"sumary": {"dbrl": 3}}})


@pytest.mark.parametrize(
    ("name", "given", "limit"),
    [
        ("ssim", {"window": "gaussian"}, "at_least"),
        ("kl_ridge", {"ridge": 0.5}, "at_most"),
        ("near_leakage", {"eps": 0.3}, "at_most"),
        ("spectral_filtering", {"noise_sd_ratio": 0.5}, "at_most"),
    ],
)
def test_a_policy_reaches_every_option_of_a_measure(name: str, given: dict[str, Any], limit: str) -> None:
    data, released = pictures()
    policy = {"policy": {"name": "p", "version": 1}, "limits": {name: {limit: 0.5}}, "options": {name: given}}
    options = {"rules": None, "seed": 1, "sanity": False}
    found = mv.assess(data, released, **options, measures=["ks"], policy=policy)[name]
    assert (
        found.value == mv.assess(data, released, **options, measures=[name], measure_options={name: given})[name].value
    )
    assert found.note.startswith(f"with {next(iter(given))} = ")


def test_rank_measures_with_ties_as_the_paper_writes_them() -> None:
    """Hsu and Chen (2008), eq. 7 and 8, cell by cell."""
    rng = np.random.default_rng(9)
    data, released = rng.integers(0, 5, (60, 3)).astype(float), rng.integers(0, 5, (60, 3)).astype(float)

    def tau(x: np.ndarray, y: np.ndarray) -> float:
        product = (x[:, None] - x) * (y[:, None] - y)
        return float(np.where(product >= 0, 1, -1)[np.triu_indices(len(x), 1)].mean())

    def rho(x: np.ndarray, y: np.ndarray) -> float:
        gaps = scipy.stats.rankdata(x) - scipy.stats.rankdata(y)
        return float(1 - 6 * (gaps**2).sum() / (len(x) * (len(x) ** 2 - 1)))

    pairs = [(0, 1), (0, 2), (1, 2)]
    for name, coefficient in (("kendall_bias", tau), ("rank_correlation_bias", rho)):
        old, new = ([coefficient(side[:, i], side[:, j]) for i, j in pairs] for side in (data, released))
        expected = sum(abs(b - a) / abs(a) for a, b in zip(old, new, strict=True)) / 6
        options = {"measures": [name], "rules": None, "sanity": False, "seed": 1}
        found = mv.assess(data, released, **options, measure_options={name: {"ties": "as_printed"}})[name]
        assert found.value == pytest.approx(expected, rel=1e-9)
        assert found.value != mv.assess(data, released, **options)[name].value
