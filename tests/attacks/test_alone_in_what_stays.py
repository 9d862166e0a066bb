"""Nobody else has this mark.

Gaps, public columns and weights stay in their rows, and values are arranged so that they go with them as before. Each
of these marks is shared by many records. But two gaps that always come together, except in one record, have a
difference, and that is the record; so have two public labels that agree but for one person, and a weight that nobody
else comes near. The sums that values are arranged by must not be this one record's: it is to come back as little as
all others. And clusters of values must not stay with the marks of their records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv

Array = NDArray[np.float64]

NAMES = [f"c{j}" for j in range(6)]
OTHERS = NAMES[2:]
"""Columns without gaps."""


def marked(mark: str, alone: int, seed: int) -> tuple[pl.DataFrame, NDArray[np.intp], dict[str, Any]]:
    """Lognormal amounts, the rows that have a mark for themselves, and the roles of the columns."""
    rng = np.random.default_rng(seed)
    cells = np.exp(rng.normal(size=(300, 6)) + 0.5 * rng.normal(size=(300, 1)))
    rows = rng.choice(300, alone, replace=False)
    frame = pl.DataFrame(dict(zip(NAMES, cells.T, strict=True)))
    common = rng.random(300) < 0.3
    common[rows] = False
    own = np.isin(np.arange(300), rows)
    if mark == "gaps":
        holes = {"c0": common | own, "c1": common}
        return (
            frame.with_columns(pl.when(~pl.Series(of)).then(name).alias(name) for name, of in holes.items()),
            rows,
            {},
        )
    if mark == "public labels":
        public = {"home": common, "work": common | own}
        frame = frame.with_columns(pl.Series(name, np.where(of, "a", "b")) for name, of in public.items())
        return frame, rows, {"confidential": NAMES, "public": list(public)}
    if mark == "public numbers":
        age = rng.integers(18, 90, 300).astype(float)
        frame = frame.with_columns(age=pl.Series(age), then=pl.Series(age + rng.normal(-5, 0.5, 300) + 40 * own))
        return frame, rows, {"confidential": NAMES, "public": ["age", "then"]}
    frame = frame.with_columns(w=pl.Series(np.where(own, 150.0, rng.uniform(0.8, 1.2, 300))))
    return frame, rows, {"confidential": NAMES, "weight": "w"}


def rank_errors(before: pl.DataFrame, after: pl.DataFrame) -> Array:
    """How far each record's released values are from its own, in ranks (0 to 1): a mean over the columns."""
    errors = []
    for name in OTHERS:
        ordered = np.sort(before[name])
        errors.append(np.abs(np.searchsorted(ordered, before[name]) - np.searchsorted(ordered, after[name])))
    return np.mean(errors, axis=0) / len(before)


@pytest.mark.quick("gaps-1")
@pytest.mark.parametrize("alone", [1, 2, 3, 4, 5, 10])
@pytest.mark.parametrize("mark", ["gaps", "public labels", "public numbers", "weight"])
def test_who_is_alone_comes_back_as_little_as_others(mark: str, alone: int) -> None:
    own, all_ = [], []
    for seed in range(1, 7):
        frame, rows, roles = marked(mark, alone, seed)
        errors = rank_errors(frame, mv.protect(frame, seed=seed, **roles).data)
        own += errors[rows].tolist()
        all_.append(errors.mean())
    # A mean of four columns has a standard deviation of about .12; it was .005 where a record came back.
    assert np.mean(own) > np.mean(all_) - 4 * 0.12 / np.sqrt(len(own))


def test_a_weight_that_nobody_comes_near_is_said() -> None:
    frame, _, roles = marked("weight", 1, 1)
    release = mv.protect(frame, seed=1, **roles)
    assert any("a weight so unlike all others" in warning for warning in release.warnings)
    assert release.data["w"].equals(frame["w"])
    even = frame.with_columns(w=pl.Series(np.random.default_rng(1).uniform(0.8, 1.2, 300)))
    assert not any("a weight so unlike" in warning for warning in mv.protect(even, seed=1, **roles).warnings)


@pytest.mark.parametrize("beside", ["public", "weight"])
def test_values_do_not_stay_in_the_cluster_of_their_record(beside: str) -> None:
    """Four groups far apart: who knows a person's group would know all amounts nearly."""
    rng = np.random.default_rng(1)
    group, centres = rng.integers(0, 4, 600), 4 * rng.normal(size=(4, 4))
    cells = np.exp((centres[group] + 0.3 * rng.normal(size=(600, 4))) / 3)
    frame = pl.DataFrame({**dict(zip(NAMES, cells.T, strict=False)), "x": rng.uniform(1, 2, 600)})
    roles = {"public": ["x"]} if beside == "public" else {"weight": "x"}
    released = mv.protect(frame, confidential=NAMES[:4], seed=1, **roles).data.select(NAMES[:4]).to_numpy()
    near = np.argmin(np.square(3 * np.log(released)[:, None] - centres).sum(axis=-1), axis=1)
    assert np.mean(near == group) == pytest.approx(np.sum(np.square(np.bincount(group) / 600)), abs=0.08)


@pytest.mark.slow
def test_the_giant_does_not_keep_its_labels() -> None:
    """The mean of a group with a giant in it is the giant's: matched in every column of labels, it tells them all."""
    kept = []
    for seed in range(1, 9):
        rng = np.random.default_rng(seed)
        cells, giant = np.exp(rng.normal(size=(500, 4))), int(rng.integers(500))
        cells[giant] = cells.max(axis=0) * rng.uniform(20, 30, 4)
        labels = {f"l{k}": rng.choice(list("abcdefgh"), 500) for k in range(6)}
        frame = pl.DataFrame({**dict(zip(NAMES, cells.T, strict=False)), **labels})
        released = mv.protect(frame, seed=seed).data
        largest = int(released["c0"].arg_max() or 0)
        kept += [released[name][largest] == labels[name][giant] for name in labels]
    assert np.mean(kept) <= 1 / 8 + 3 * np.sqrt(7 / 64 / len(kept))
