"""The search for the nearest record is exact, whichever way it goes, and ties are guesses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.risk import neighbours
from microveil.risk.neighbours import TREE_DIMENSIONS, link

Array = NDArray[np.float64]


def by_hand(queries: Array, released: Array, own: NDArray[np.intp]) -> tuple[Array, Array]:
    """Smallest distances and credits, by looking at every pair in double precision."""
    distance = np.sqrt(np.square(queries[:, None] - released[None]).sum(axis=2))
    smallest = distance.min(axis=1)
    near = distance <= smallest[:, None] * (1 + 1e-12) + 1e-9
    return smallest, np.where(near[np.arange(len(queries)), own], 1 / near.sum(axis=1), 0.0)


def released_for(data: Array, kind: str, rng: np.random.Generator) -> Array:
    if kind == "near":
        return data + 0.1 * rng.normal(size=data.shape)
    if kind == "far":
        return data[rng.permutation(len(data))] + rng.normal(size=data.shape)
    return np.round(data)  # many records become equal


@pytest.mark.parametrize("kind", ["near", "far", "ties"])
@pytest.mark.parametrize("columns", [1, 3, TREE_DIMENSIONS, TREE_DIMENSIONS + 1, 30])
@pytest.mark.parametrize("tails", ["normal", "heavy"])
def test_links_are_those_of_looking_at_every_pair(
    kind: str, columns: int, tails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "QUERIES_PER_BLOCK", 32)  # several blocks, the last ones not full
    monkeypatch.setattr(neighbours, "RECORDS_PER_BLOCK", 70)
    rng = np.random.default_rng(columns)
    data = rng.normal(size=(300, columns)) if tails == "normal" else rng.standard_t(1.5, size=(300, columns))
    released = released_for(data, kind, rng)
    own = np.arange(0, 300, 2)
    found = link(data[own], released, own)
    smallest, credit = by_hand(data[own], released, own)
    assert found.credit == pytest.approx(credit, abs=1e-12)
    reached = np.sqrt(np.square(data[own] - released[found.nearest]).sum(axis=1))
    assert reached == pytest.approx(smallest, rel=1e-9, abs=2e-9)


@pytest.mark.parametrize("offset", [np.full(400, 1e5), np.repeat([-1e4, 1e4], 200)], ids=["one heap", "two heaps"])
def test_records_far_out_are_told_apart_though_single_precision_cannot(offset: Array) -> None:
    # Taking off the mean helps against the first; against the second only the second look in double precision does.
    rng = np.random.default_rng(1)
    data = rng.normal(size=(400, 12)) + offset[:, None] * rng.normal(size=12)
    released = data + 0.01 * rng.normal(size=data.shape)
    own = np.arange(400)
    assert link(data, released, own).nearest.tolist() == own.tolist()
    single = data.astype(np.float32)
    products = np.square(single).sum(axis=1) - 2 * single @ released.astype(np.float32).T
    assert (products.argmin(axis=1) == own).mean() < 0.5


@pytest.mark.parametrize("columns", [2, 12])
def test_of_equal_records_each_gets_its_share(columns: int) -> None:
    data = np.repeat(np.arange(5.0), 4)[:, None] * np.ones(columns)
    found = link(data, data, np.arange(20))
    assert found.credit == pytest.approx(np.full(20, 1 / 4))
    assert found.hits == pytest.approx(5)


@pytest.mark.parametrize("columns", [2, 12])
def test_a_nearer_stranger_is_a_miss(columns: int) -> None:
    queries = np.zeros((1, columns))
    released = np.vstack([np.full(columns, 0.2), np.full(columns, 0.1)])
    found = link(queries, released, np.array([0]))
    assert found.nearest.tolist() == [1]
    assert found.hits == 0
