"""The search for the nearest record is exact, whichever way it goes, and ties are guesses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.risk import neighbours
from microveil.risk.neighbours import TREE_DIMENSIONS, link, nearest, standing

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


@pytest.mark.parametrize("columns", [3, TREE_DIMENSIONS + 1, 30])
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("kind", ["near", "far", "ties"])
def test_several_neighbours_are_those_of_looking_at_every_pair(
    columns: int, count: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "QUERIES_PER_BLOCK", 32)
    monkeypatch.setattr(neighbours, "RECORDS_PER_BLOCK", 70)
    monkeypatch.setattr(neighbours, "FIRST_RECORDS", 10)
    rng = np.random.default_rng(columns)
    records = rng.standard_t(2, size=(300, columns))
    queries = released_for(records, kind, rng)[:150]
    which, distance = nearest(queries, records, count)
    every = np.sqrt(np.square(queries[:, None] - records[None]).sum(axis=2))
    assert distance == pytest.approx(np.sort(every, axis=1)[:, :count], rel=1e-12, abs=1e-12)
    assert every[np.arange(150)[:, None], which] == pytest.approx(distance, rel=1e-12, abs=1e-12)
    assert all(np.unique(row).size == count for row in which)


@pytest.mark.parametrize("columns", [2, 12])
def test_where_there_are_fewer_records_than_asked_for_the_rest_is_far(columns: int) -> None:
    which, distance = nearest(np.zeros((4, columns)), np.ones((2, columns)), 3)
    assert which.shape == distance.shape == (4, 3)
    assert np.isinf(distance[:, 2]).all()
    assert np.isfinite(distance[:, :2]).all()
    assert np.isinf(nearest(np.zeros((4, columns)), np.ones((0, columns)), 1)[1]).all()


@pytest.mark.parametrize("kind", ["near", "far", "ties"])
@pytest.mark.parametrize("columns", [2, 12])
def test_a_place_in_the_queue_is_that_of_looking_at_every_pair(
    kind: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "QUERIES_PER_BLOCK", 64)
    monkeypatch.setattr(neighbours, "RECORDS_PER_BLOCK", 70)
    rng = np.random.default_rng(columns)
    data = rng.standard_t(2, size=(300, columns))
    released = released_for(data, kind, rng)
    if kind == "ties":
        data = np.round(data)
    own = np.arange(0, 300, 2)
    nearer, equal = standing(data[own], released, own)
    every = np.sqrt(np.square(data[own][:, None] - released[None]).sum(axis=2))
    reach = every[np.arange(own.size), own][:, None]
    assert nearer.tolist() == (every < reach - 1e-9).sum(axis=1).tolist()
    assert equal.tolist() == (np.abs(every - reach) <= 1e-9).sum(axis=1).tolist()
    assert np.where(nearer == 0, 1 / equal, 0.0) == pytest.approx(link(data[own], released, own).credit)
