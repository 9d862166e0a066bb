"""One person of a thousand.

A release hides everybody but one, who comes back nearly whole in some row. A linkage of .001 is what luck gives, and
every average calls the release safe. The one who was given away does not mind averages. `assessment.records` must have
that record first, with a reason and without a value, and a policy on the worst record must not be met; while a release
that gives nobody away meets it.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv

Array = NDArray[np.float64]

POLICY = {"policy": {"name": "persons", "version": 1}, "limits": {"max_record_risk": {"at_most": 0.99}}}


def firms(seed: int, rows: int = 600, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(0.7 * rng.normal(size=(rows, 1)) + 0.7 * rng.normal(size=(rows, columns)))


def with_one_back(seed: int, row: int) -> tuple[Array, Array]:
    data, released = firms(seed), firms(100 + seed)
    data[row] *= 4
    released[17] = data[row] * np.random.default_rng(seed).uniform(0.995, 1.005, data.shape[1])
    return data, released


@pytest.mark.parametrize("row", [17, 321])
def test_one_record_that_came_back_is_first(row: int) -> None:
    data, released = with_one_back(1, row)
    found = mv.assess(data, released, measures=["dbrl"], policy=POLICY, seed=1, sanity=False)
    assert found["dbrl"].value < 0.01
    assert found["max_record_risk"].value > 0.99
    assert not found.met
    records = found.records
    assert isinstance(records, pl.DataFrame)
    assert records.columns == ["row", "risk", "reason"]
    assert records["row"][0] == row
    assert records["risk"].is_sorted(descending=True)
    assert records["risk"][1] < 0.99
    assert "own row" in records["reason"][0] or row != 17
    assert not any(letter.isdigit() for reason in records["reason"] for letter in reason)


def test_the_default_set_shows_it() -> None:
    data, released = with_one_back(2, 321)
    found = mv.assess(data, released, seed=1, sanity=False)
    assert found["worst_attack"].value - (found["worst_attack"].chance or 0.0) < 0.05  # on average nobody is found
    assert found["max_record_risk"].value > 0.99
    assert found["max_record_risk"].parts["records above 0.99"] == 1


def test_nobody_is_at_risk_in_another_sample() -> None:
    kinds = [
        lambda seed: firms(seed),
        lambda seed: np.round(5 * firms(seed)),
        lambda seed: np.round(3 * firms(seed, 400, 5)),
    ]
    for kind in kinds:
        found = [mv.assess(kind(s), kind(50 + s), measures=["max_record_risk"], seed=1, sanity=False) for s in range(8)]
        assert sum(one["max_record_risk"].value > 0.99 for one in found) <= 1


def test_copies_and_noise_put_many_at_risk() -> None:
    data = firms(3)
    rng = np.random.default_rng(4)
    noisy = data * np.exp(0.01 * rng.normal(size=data.shape))
    for released in (data, rng.permutation(noisy), noisy):
        found = mv.assess(data, released, measures=["max_record_risk"], seed=1, sanity=False)
        assert found["max_record_risk"].parts["records above 0.99"] > 300


def test_who_is_at_risk_is_told_to_the_owner_alone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    data = pl.DataFrame(firms(5, 300), schema=[f"amount_{j}" for j in range(6)])
    release = mv.protect(data, "noise", seed=1)
    found = mv.assess(data, release, measures=["dbrl", "ks"], seed=1, sanity=False)
    assert "reason" not in found.to_json()
    for audience in ("internal", "public"):
        release.report(tmp_path / f"{audience}.html", audience=audience, assessment=found)
    told = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("internal", "public")}
    assert len(told["internal"]["records"]) == 20
    assert set(told["internal"]["records"][0]) == {"row", "risk", "reason"}
    assert "Records at highest risk" in (tmp_path / "internal.html").read_text()
    assert "records" not in told["public"]
    assert "highest risk" not in (tmp_path / "public.html").read_text()


def test_labels_give_a_record_away_that_numbers_alone_do_not() -> None:
    """Two numbers that come near somebody mean little; with eight rare answers of the same person they mean much."""
    rng = np.random.default_rng(6)

    def people(seed: int) -> pl.DataFrame:
        own = np.random.default_rng(seed)
        numbers = {f"n{j}": own.uniform(1, 2, size=400) for j in range(2)}
        return pl.DataFrame({**numbers, **{f"l{j}": own.choice(list("abcde"), 400) for j in range(8)}})

    data, released = people(1), people(2)
    row, place = 123, 321
    near = [
        value * rng.uniform(0.98, 1.02) if name.startswith("n") else value
        for name, value in zip(data.columns, data.row(row), strict=True)
    ]
    released = pl.concat(
        [released[:place], pl.DataFrame([near], schema=released.schema, orient="row"), released[place + 1 :]]
    )
    found = mv.assess(data, released, measures=["max_record_risk"], seed=1, sanity=False)
    assert found["max_record_risk"].value > 0.99
    assert found.records["row"][0] == row
    numbers = mv.assess(data[:, :2], released[:, :2], measures=["max_record_risk"], seed=1, sanity=False)
    assert numbers["max_record_risk"].value < 0.99
    alike = [mv.assess(data, people(s), measures=["max_record_risk"], seed=1, sanity=False) for s in range(3, 9)]
    assert sum(one["max_record_risk"].value > 0.99 for one in alike) <= 1
