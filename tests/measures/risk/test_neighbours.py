"""The search for the nearest record is exact, whichever way it goes, and ties are guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples

from microveil.measures.nearest import distances as products
from microveil.measures.nearest import neighbours
from microveil.measures.nearest.neighbours import TREE_DIMENSIONS, Links, link, nearest, standing
from microveil.measures.risk.linkage import links_of

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Rng = np.random.Generator

WAYS = {"tree": True, "products": False}


@contextmanager
def going(way: str | None = None, *, pilot: bool = False) -> Iterator[None]:
    """The search by one way, or after a trial of both, in several small blocks of which the last ones are not full."""
    small = {"QUERIES_PER_BLOCK": 32, "QUERIES_AGAIN": 16, "BLOCKS": 1, "FEWEST_RECORDS": 7, "MOST_RECORDS": 30}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (small | {"PAIRS_AT_ONCE": 100}).items():
            patch.setattr(products, name, value)
        for name, value in {"FEWEST_IN_GROUP": 8, "PILOT_RUN": 2}.items():
            patch.setattr(neighbours, name, value)
        if way is not None:
            patch.setattr(neighbours, "_tree_is_faster", lambda search: WAYS[way])
        if pilot:
            patch.setattr(neighbours, "PILOT_PAIRS", 0)
        yield


def by_hand(queries: Array, released: Array, own: Index) -> tuple[Index, Array]:
    """The first of the nearest records, and credits, by looking at every pair in double precision."""
    distance = np.sqrt(np.square(queries[:, None] - released[None]).sum(axis=2))
    near = distance <= distance.min(axis=1)[:, None] * (1 + 1e-12) + 1e-9
    return near.argmax(axis=1), np.where(near[np.arange(len(queries)), own], 1 / near.sum(axis=1), 0.0)


def released_for(data: Array, kind: str, rng: Rng) -> Array:
    if kind == "near":
        return data + 0.1 * rng.normal(size=data.shape)
    if kind == "far":
        return data[rng.permutation(len(data))] + rng.normal(size=data.shape)
    return np.round(data)  # many records become equal


@pytest.mark.quick("normal-1-near-tree", "normal-7-far-tree", "heavy-3-ties-tree")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["near", "far", "ties"])
@pytest.mark.parametrize("columns", [1, 3, TREE_DIMENSIONS, TREE_DIMENSIONS + 1, 30])
@pytest.mark.parametrize("tails", ["normal", "heavy"])
def test_links_are_those_of_looking_at_every_pair(way: str, kind: str, columns: int, tails: str) -> None:
    rng = np.random.default_rng(columns)
    data = rng.normal(size=(300, columns)) if tails == "normal" else rng.standard_t(1.5, size=(300, columns))
    released = released_for(data, kind, rng)
    own = np.arange(0, 300, 2)
    with going(way):
        found = link(data[own], released, own)
    first, credit = by_hand(data[own], released, own)
    assert found.nearest.tolist() == first.tolist()
    assert found.credit.tolist() == credit.tolist()


def lattice(shape: tuple[int, int], rng: Rng) -> Array:
    return rng.integers(0, 3, size=shape).astype(float)


def two_heaps(shape: tuple[int, int], rng: Rng) -> Array:
    return rng.normal(size=shape) + 1e6 * rng.integers(0, 2, size=(shape[0], 1))


HOSTILE: dict[str, Callable[[tuple[int, int], Rng], Array]] = {
    "normal": lambda shape, rng: rng.normal(size=shape),
    "long tails": lambda shape, rng: np.exp(3 * rng.normal(size=shape)),
    "longer tails": lambda shape, rng: rng.standard_cauchy(size=shape),
    "lattice": lattice,
    "few different records": lambda shape, rng: lattice((4, shape[1]), rng)[rng.integers(0, 4, size=shape[0])],
    "a constant column": lambda shape, rng: rng.normal(size=shape) * (np.arange(shape[1]) > 0),
    "all the same": lambda shape, rng: np.ones(shape),
    "a millionfold offset": lambda shape, rng: rng.normal(size=shape) + 1e6,
    "two heaps far apart": two_heaps,
    "one value beyond single precision": lambda shape, rng: (
        np.where(np.arange(shape[0]) == 0, 1e25, 1.0)[:, None] * rng.normal(size=shape)
    ),
    "differences below round-off": lambda shape, rng: 1 + 1e-13 * rng.normal(size=shape),
}

CHANGES: dict[str, Callable[[Array, Rng], Array]] = {
    "nothing": lambda data, rng: data.copy(),
    "little": lambda data, rng: data + 0.01 * rng.normal(size=data.shape),
    "much": lambda data, rng: data + rng.normal(size=data.shape),
    "groups of three": lambda data, rng: data[np.arange(len(data)) // 3 * 3],
    "another order": lambda data, rng: rng.permutation(data),
    "rounded": lambda data, rng: np.round(data),
    "moved": lambda data, rng: data + 1e6,
}


@settings(max_examples=examples(80))
@given(
    kind=st.sampled_from(sorted(HOSTILE)),
    change=st.sampled_from(sorted(CHANGES)),
    rows=st.integers(1, 120),
    columns=st.integers(1, 15),
    blank=st.booleans(),
    pilot=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_both_ways_find_the_same(
    kind: str, change: str, rows: int, columns: int, blank: bool, pilot: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = HOSTILE[kind]((rows, columns), rng)
    released = CHANGES[change](data, rng)
    tried = np.flatnonzero(rng.random(rows) < 0.8)
    for side in (data, released) if blank else ():
        side[rng.random(rows) < 0.1] = np.nan
        side[rng.random(side.shape) < 0.1] = np.nan
    found: dict[str, Links] = {}
    for way in WAYS:
        with going(way):
            found[way] = links_of(data, released, tried)
    with going(pilot=pilot):
        found["either"] = links_of(data, released, tried)
    first, credit = by_hand(np.nan_to_num(data[tried]), np.nan_to_num(released), tried)
    credit[np.isnan(data[tried] + released[tried]).all(axis=1)] = 0.0
    for way, links in found.items():
        assert links.nearest.tolist() == first.tolist(), way
        assert links.credit.tolist() == credit.tolist(), way


def test_a_few_queries_tell_which_way_is_faster() -> None:
    # The ways are several times apart here, in either direction.
    rng = np.random.default_rng(3)
    data = np.exp(0.5 * rng.normal(size=(40_000, 13)))
    chosen = {}
    for kind, released in {
        "near": data + 0.05 * rng.normal(size=data.shape),
        "far": np.exp(0.5 * rng.normal(size=data.shape)),
    }.items():
        search = neighbours._NearestSearch.of(data, released, np.arange(len(data)))
        chosen[kind] = neighbours._tree_is_faster(search)
    assert chosen == {"near": True, "far": False}


@pytest.mark.parametrize("value", [1e6, 1e10, 1e18, 1e25])
@pytest.mark.parametrize("columns", [3, 12])
def test_one_released_value_far_out_hides_nobody_else(columns: int, value: float) -> None:
    rng = np.random.default_rng(4)
    data = rng.normal(size=(200, columns))
    released = data + 1e-3 * rng.normal(size=data.shape)
    released[5, 1] = value
    own = np.arange(200)
    for found in (link(data, released, own).credit == 1, standing(data, released, own)[0] == 0):
        assert np.flatnonzero(~found).tolist() == [5]
    assert (nearest(data, released, 1)[0][:, 0] == own).sum() == 199


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("offset", [np.full(400, 1e5), np.repeat([-1e4, 1e4], 200)], ids=["one heap", "two heaps"])
def test_records_far_out_are_told_apart_though_single_precision_cannot(offset: Array, way: str) -> None:
    # A centre helps against the first; against the second only the second look in double precision does.
    rng = np.random.default_rng(1)
    data = rng.normal(size=(400, 12)) + offset[:, None] * rng.normal(size=12)
    released = data + 0.01 * rng.normal(size=data.shape)
    own = np.arange(400)
    with going(way):
        assert link(data, released, own).nearest.tolist() == own.tolist()
    single = data.astype(np.float32)
    squares = np.square(single).sum(axis=1) - 2 * single @ released.astype(np.float32).T
    assert (squares.argmin(axis=1) == own).mean() < 0.5


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


@pytest.mark.quick("near-1-3", "far-1-3", "ties-1-3")
@pytest.mark.parametrize("columns", [3, TREE_DIMENSIONS + 1, 30])
@pytest.mark.parametrize("count", [1, 2, 6])
@pytest.mark.parametrize("kind", ["near", "far", "ties"])
def test_several_neighbours_are_those_of_looking_at_every_pair(columns: int, count: int, kind: str) -> None:
    rng = np.random.default_rng(columns)
    records = rng.standard_t(2, size=(300, columns))
    queries = released_for(records, kind, rng)[:150]
    with going():
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
def test_a_place_in_the_queue_is_that_of_looking_at_every_pair(kind: str, columns: int) -> None:
    rng = np.random.default_rng(columns)
    data = rng.standard_t(2, size=(300, columns))
    released = released_for(data, kind, rng)
    if kind == "ties":
        data = np.round(data)
    own = np.arange(0, 300, 2)
    with going():
        nearer, equal = standing(data[own], released, own)
    every = np.sqrt(np.square(data[own][:, None] - released[None]).sum(axis=2))
    reach = every[np.arange(own.size), own][:, None]
    assert nearer.tolist() == (every < reach - 1e-9).sum(axis=1).tolist()
    assert equal.tolist() == (np.abs(every - reach) <= 1e-9).sum(axis=1).tolist()
    assert np.where(nearer == 0, 1 / equal, 0.0) == pytest.approx(link(data[own], released, own).credit)
