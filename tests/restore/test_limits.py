"""Rows are brought within limits by exchanges: distributions stay, and moments are no worse than before."""

from __future__ import annotations

import numpy as np
import pytest

from microveil.core.arrays import Array, Mask
from microveil.core.table import Matrix, Microdata
from microveil.restore import Arrangement, Limits, within_limits

BELOW = np.array([[1.0, -1.0, 0.0]])


def jumbled(column: Array, how_far: float, rng: np.random.Generator) -> Array:
    """The values of a column where others of about their size were."""
    out = np.empty(column.size)
    ranks = np.argsort(np.argsort(column)) + how_far * column.size * rng.standard_normal(column.size)
    out[np.argsort(ranks)] = np.sort(column)
    return out


def table(rows: int = 600, seed: int = 0) -> tuple[Microdata, list[Array]]:
    """Two columns in an order and a third, and the same with values in other rows, so that many break the order."""
    rng = np.random.default_rng(seed)
    upper = rng.lognormal(size=rows)
    original = [upper * rng.beta(2, 2, rows), upper, np.log(upper) + rng.standard_normal(rows)]
    released = [jumbled(original[0], 0.05, rng), upper, jumbled(original[2], 0.01, rng)]
    return Microdata(Matrix(original), ("lower", "upper", "other")), released


def settled(limits: Limits, original: Microdata, released: list[Array], present: Mask | None = None) -> list[Array]:
    return within_limits(Arrangement(released, ()), limits, original, present, np.random.default_rng(1))


def test_every_row_is_within_the_limits_and_distributions_stay() -> None:
    original, released = table()
    limits = Limits(BELOW, np.zeros(1))
    assert limits.broken(released)[0] > 20
    found = settled(limits, original, released)
    assert (found[0] <= found[1]).all()
    for old, new in zip(released, found, strict=True):
        np.testing.assert_array_equal(np.sort(old), np.sort(new))


def test_moments_are_nearer_to_the_original_than_before() -> None:
    original, released = table(rows=2_000)
    found = settled(Limits(BELOW, np.zeros(1)), original, released)
    target, before, after = (np.corrcoef(np.array(of)) for of in (original.values.columns, released, found))
    assert np.abs(after - target).max() < np.abs(before - target).max()


def test_what_nobody_sees_is_no_limit_and_missing_cells_stay() -> None:
    original, released = table()
    present: Mask = np.asarray(np.random.default_rng(5).random((600, 3)) > 0.2)
    seen: Mask = (present[:, 0] & present[:, 1])[None]
    found = settled(Limits(BELOW, np.zeros(1), seen), original, released, present)
    assert (found[0] <= found[1])[seen[0]].all()
    for j in range(3):
        there = present[:, j]
        np.testing.assert_array_equal(found[j][~there], released[j][~there])
        np.testing.assert_array_equal(np.sort(found[j][there]), np.sort(released[j][there]))


def test_a_bound_on_a_sum_is_kept_by_its_terms() -> None:
    original, released = table()
    limits = Limits(np.array([[1.0, 1.0, 0.0]]), np.array([released[0].max() + released[1].max()]) * 0.6)
    released[1] = np.sort(released[1])[np.argsort(np.argsort(released[0]))]
    assert limits.broken(released)[0] > 0
    found = settled(limits, original, released)
    assert limits.broken(found)[0] == 0


def test_nothing_to_do_is_nothing_done() -> None:
    original, _ = table()
    columns = list(original.values.columns)
    found = settled(Limits(BELOW, np.zeros(1)), original, columns)
    assert all(new is old for new, old in zip(found, columns, strict=True))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_limits_that_cannot_be_kept_end(rows: int) -> None:
    columns = [np.arange(1.0, rows + 1), np.zeros(rows)]
    found = settled(Limits(np.array([[1.0, -1.0]]), np.zeros(1)), Microdata(Matrix(columns), ("a", "b")), columns)
    assert sorted(found[0]) == sorted(columns[0])
