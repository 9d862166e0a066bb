"""Microaggregation: who is in a group, along a line and in all columns, and what becomes of the values."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples
from reference import census, golden, tarragona_834

import microveil as mv
from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.perturb import Columns, microaggregate
from microveil.perturb.microaggregate import (
    Microaggregate,
    best_sizes,
    first_component,
    group_means,
    group_sizes,
    similar_records,
)

Array = NDArray[np.float64]
Groups = set[frozenset[int]]


def masked(step: Microaggregate, data: Array, weights: Array | None = None) -> Array:
    columns = Columns(np.ascontiguousarray(data.T), Streams(1).stream("unused"), np.empty((0, len(data))), weights)
    return step.apply_together(columns).T


def groups_of(numbers: NDArray[np.int64]) -> Groups:
    return {frozenset(np.flatnonzero(numbers == number).tolist()) for number in np.unique(numbers)}


def firms(rows: int, seed: int = 0) -> Array:
    """Whole amounts with heavy tails, every tenth firm a twin of another one."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(0.6 + 0.4 * np.eye(5))
    data = np.round(100 * np.exp(rng.standard_normal((rows, 5)) @ root.T))
    data[::10] = data[rng.integers(rows, size=data[::10].shape[0])]
    return data


# --- Along a line


@pytest.mark.parametrize(("rows", "size"), [(3, 3), (5, 3), (6, 3), (8, 3), (100, 7), (11, 10), (19, 10)])
def test_equal_groups_have_the_size_asked_and_the_last_takes_the_rest(rows: int, size: int) -> None:
    sizes = group_sizes(np.arange(float(rows)), size)
    assert sizes.sum() == rows
    assert (sizes[:-1] == size).all()
    assert size <= sizes[-1] < 2 * size


def test_neighbours_become_their_mean() -> None:
    values = np.array([9.0, 1.0, 2.0, 100.0, 3.0, 10.0, 11.0, 4.0])
    new = masked(Microaggregate(group_size=3), values[:, None])[:, 0]
    # sorted: 1 2 3 | 4 9 10 11 100 (the last group takes the remainder)
    assert new.tolist() == [26.8, 2.0, 2.0, 26.8, 2.0, 26.8, 26.8, 26.8]
    best = masked(Microaggregate(group_size=3, sizes="minimum"), values[:, None])[:, 0]
    # 1 2 3 4 9 | 10 11 100 varies less, as 100 then pulls fewer along
    assert best.tolist() == [3.8, 3.8, 3.8, 121 / 3, 3.8, 121 / 3, 121 / 3, 3.8]


def squares(line: Array, sizes: list[int]) -> float:
    """The sum of squares about the means of groups along a line."""
    parts = np.split(line, np.cumsum(sizes)[:-1])
    return math.fsum(float(np.square(part - part.mean()).sum()) for part in parts)


def cuts(rows: int, size: int) -> Iterator[list[int]]:
    """All ways to cut a line into groups of at least this size."""
    if rows >= size:
        yield [rows]
    for first in range(size, rows - size + 1):
        yield from ([first, *rest] for rest in cuts(rows - first, size))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_best_sizes_are_the_best_of_all(size: int) -> None:
    rng = np.random.default_rng(size)
    for rows, make in itertools.product(range(size, 13), (rng.standard_normal, rng.standard_cauchy, rng.random)):
        line = np.sort(make(rows))
        found = best_sizes(line, size).tolist()
        assert min(found) >= size
        assert max(found) < 2 * size
        assert sum(found) == rows
        # Of all groups at least so large, larger ones too: to have left those out loses nothing.
        least = min(squares(line, sizes) for sizes in cuts(rows, size))
        assert squares(line, found) == pytest.approx(least, rel=1e-12, abs=1e-30)


@pytest.mark.parametrize("size", [2, 3, 10, 60])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_sizes_are_never_worse_than_equal_ones(size: int, seed: int) -> None:
    line = np.sort(np.random.default_rng(seed).standard_t(2, 500))
    best, equal = best_sizes(line, size), group_sizes(line, size)
    assert squares(line, best.tolist()) <= squares(line, equal.tolist())


def test_small_differences_beside_large_values_still_count() -> None:
    """Pairs a millionth apart, after an outlier a billion away: the pairs must be found."""
    line = np.concatenate([[-1e9, -1e9 + 1], np.repeat(np.arange(50.0), 2) + np.tile([0, 1e-6], 50)])
    assert best_sizes(line, 2).tolist() == [2] * 51


@pytest.mark.parametrize(("rows", "size"), [(2, 2), (500, 2), (500, 7), (500, 200), (500, 400)])
def test_compiled_and_plain_paths_agree(rows: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = np.sort(np.random.default_rng(rows).gamma(0.5, size=rows))
    plain = best_sizes(line, size)
    monkeypatch.setattr(microaggregate, "SHORT", 0)
    assert np.array_equal(best_sizes(line, size), plain)


@pytest.mark.parametrize("sizes", ["equal", "minimum"])
@pytest.mark.parametrize("size", [2, 3, 10, 250])
def test_each_column_keeps_its_mean_and_its_order(size: int, sizes: microaggregate.Sizes) -> None:
    values = np.random.default_rng(2).gamma(1.0, size=(500, 2))
    new = masked(Microaggregate(group_size=size, sizes=sizes), values)
    for before, after in zip(values.T, new.T, strict=True):
        assert after.mean() == pytest.approx(before.mean(), rel=1e-14)
        assert np.var(after) == pytest.approx(np.var(before) - np.var(before - after), rel=1e-12)
        assert np.unique(after, return_counts=True)[1].min() >= size
        assert (np.diff(after[np.argsort(before)]) >= 0).all()
    assert (np.argsort(new[:, 0]) != np.argsort(new[:, 1])).any()  # each column has groups of its own


def test_sdcmicros_individual_ranking_comes_out() -> None:
    _, data = tarragona_834()
    _, expected = golden("microagg_onedims_Tarragona_k3.csv")
    assert np.allclose(masked(Microaggregate(group_size=3, sizes="equal"), data), expected, rtol=1e-14, atol=0)


# --- Along the first principal component


@pytest.mark.parametrize("sizes", ["equal", "minimum"])
def test_records_are_neighbours_along_the_first_component(sizes: microaggregate.Sizes) -> None:
    data = firms(401) * [1, 1e-3, 1e6, 1, 1]
    z = (data - data.mean(axis=0)) / data.std(axis=0)
    line = z @ np.linalg.svd(z, full_matrices=False)[2][0]
    assert np.allclose(np.abs(first_component(data.T)), np.abs(line), atol=1e-10)
    new = masked(Microaggregate(group_size=4, grouping="projection", sizes=sizes), data)
    records, numbers, counts = np.unique(new, axis=0, return_inverse=True, return_counts=True)
    assert counts.min() >= 4
    assert counts.max() <= 7
    # Groups do not overlap along the line, whichever way it runs.
    ends = sorted((line[numbers == k].min(), line[numbers == k].max()) for k in range(len(records)))
    assert all(high <= low + 1e-10 for (_, high), (low, _) in itertools.pairwise(ends))
    assert new.mean(axis=0) == pytest.approx(data.mean(axis=0), rel=1e-13)


# --- In all columns: MDAV


def mdav(data: Array, size: int) -> Groups:
    """MDAV as it is written down, without haste: all distances, a mean without round-off, ties to the last row."""
    variance = data.T.copy().var(axis=1)
    weight = [1 / v if v > 0 and np.ptp(column) > 0 else 0.0 for v, column in zip(variance, data.T, strict=True)]
    left, groups = list(range(len(data))), set()

    def distances(point: Array) -> Array:
        total = np.zeros(len(left))
        for column, centre, w in zip(data[left].T, point, weight, strict=True):
            total += (column - centre) ** 2 * w
        return total

    def farthest(point: Array) -> Array:
        found = distances(point)
        return data[left[max(range(len(left)), key=lambda i: (found[i], left[i]))]]

    def make_group(point: Array) -> None:
        found = distances(point)
        nearest = sorted(range(len(left)), key=lambda i: (found[i], -left[i]))[:size]
        members = {left[i] for i in nearest}
        groups.add(frozenset(members))
        left[:] = [row for row in left if row not in members]

    while len(left) >= 2 * size:
        centre = np.array([math.fsum(column) / len(left) for column in data[left].T])
        r = farthest(centre)
        if len(left) >= 3 * size:
            s = farthest(r)
            make_group(r)
            make_group(s)
        else:
            make_group(r)
    return groups | {frozenset(left)}


KINDS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy tails": lambda rng, shape: np.exp(3 * rng.standard_normal(shape)),
    "one outlier": lambda rng, shape: np.where(np.arange(shape[0])[:, None] == 0, 1e17, rng.standard_normal(shape)),
    "few whole numbers": lambda rng, shape: rng.integers(0, 4, shape).astype(float),
    "all the same": lambda rng, shape: np.full(shape, 0.1),
    "twins": lambda rng, shape: rng.standard_normal((1 + shape[0] // 3, shape[1]))[
        rng.integers(1 + shape[0] // 3, size=shape[0])
    ],
    "far from zero": lambda rng, shape: 1e8 + rng.integers(0, 100, shape),
    "constant columns": lambda rng, shape: rng.standard_normal(shape) * (np.arange(shape[1]) % 2) + 0.1,
    "one factor": lambda rng, shape: np.exp(rng.standard_normal((shape[0], 1)) + 0.3 * rng.standard_normal(shape)),
    "symmetric": lambda rng, shape: np.vstack([half := rng.integers(-3, 4, shape), -half])[: shape[0]].astype(float),
}


@settings(max_examples=examples(25))
@given(st.sampled_from(sorted(KINDS)), st.integers(2, 120), st.integers(1, 14), st.floats(0, 1), st.integers(0, 10**6))
def test_both_searches_find_what_the_plain_rule_says(
    kind: str, rows: int, columns: int, share: float, seed: int
) -> None:
    data = KINDS[kind](np.random.default_rng(seed), (rows, columns))
    size = 2 + round(share**3 * (rows - 2))  # from 2 to all rows, small ones more often
    expected = mdav(data, size)
    with pytest.MonkeyPatch.context() as patch:
        for small, leaf in ((math.inf, 1), (-1, 1), (-1, 8)):
            patch.setattr(microaggregate, "SMALL", small)
            patch.setattr(microaggregate, "LEAF", leaf)
            assert groups_of(similar_records(data.T, size)) == expected


@pytest.mark.quick("heavy tails*", "twins-3000*")
@pytest.mark.parametrize(("rows", "columns", "size"), [(3000, 6, 3), (2000, 13, 2), (2000, 3, 40), (1500, 30, 700)])
@pytest.mark.parametrize("kind", ["heavy tails", "normal", "one factor", "twins"])
def test_the_searches_agree_on_larger_tables(
    kind: str, rows: int, columns: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = KINDS[kind](np.random.default_rng(rows), (rows, columns)).T
    monkeypatch.setattr(microaggregate, "SMALL", math.inf)
    plain = similar_records(values, size)
    monkeypatch.setattr(microaggregate, "SMALL", -1)
    assert np.array_equal(similar_records(values, size), plain)


@pytest.mark.parametrize(
    ("rows", "size"), [(6, 2), (7, 2), (9, 3), (10, 3), (11, 3), (14, 5), (5, 5), (9, 5), (100, 7)]
)
def test_groups_have_the_size_asked_and_only_the_last_is_larger(rows: int, size: int) -> None:
    numbers = similar_records(np.random.default_rng(rows).standard_normal((3, rows)), size)
    counts = np.bincount(numbers)
    assert (counts[:-1] == size).all()
    assert size <= counts[-1] < 2 * size


@pytest.mark.parametrize("small", [math.inf, -1], ids=["plain", "compiled"])
def test_of_equally_far_and_near_records_the_last_comes_first(small: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microaggregate, "SMALL", small)

    def groups(column: list[float]) -> Groups:
        return groups_of(similar_records(np.array([column]), 2))

    assert groups([1, 1, 1, -1, -1, -1, 0]) == {frozenset({1, 2}), frozenset({4, 5}), frozenset({0, 3, 6})}
    assert groups([-3, -1, 0, 1, 3]) == {frozenset({3, 4}), frozenset({0, 1, 2})}  # the first group is of one end only
    assert groups([3, 1, 0, -1, -3]) == {frozenset({3, 4}), frozenset({0, 1, 2})}


def test_units_play_no_part_nor_do_columns_that_do_not_vary() -> None:
    data = firms(200)
    expected = similar_records(data.T, 3)
    scaled = data * [2.0**-900, 2.0**600, 1, 2.0, 0.25]  # powers of two: not even the round-off changes
    assert np.array_equal(similar_records(scaled.T, 3), expected)
    assert np.array_equal(similar_records(np.column_stack([data, np.full(200, 0.1)]).T, 3), expected)
    assert np.array_equal(similar_records(np.asfortranarray(data.T), 3), expected)


@pytest.mark.parametrize("size", [3, 5])
def test_the_groups_are_those_of_sdcmicro_on_tarragona_twins_included(size: int) -> None:
    _, data = tarragona_834()
    _, expected = golden(f"mdav_Tarragona_k{size}.csv")
    assert groups_of(similar_records(data.T, size)) == groups_of(expected[:, 0].astype(np.int64))
    release = mv.protect(data, "microaggregate", group_size=size)
    assert np.allclose(release.data, expected[:, 1:], rtol=1e-13, atol=0)


def test_the_groups_are_those_of_sdcmicro_on_the_census() -> None:
    _, data = census()
    _, expected = golden("mdav_CASCrefmicrodata_k5.csv")
    assert groups_of(similar_records(data.T, 5)) == groups_of(expected[:, 0].astype(np.int64))
    new = masked(Microaggregate(group_size=5, grouping="mdav"), data)
    assert np.allclose(new, expected[:, 1:], rtol=1e-13, atol=0)


@pytest.mark.parametrize("size", [3, 5])
def test_the_groups_of_our_own_firms_are_those_of_the_plain_rule_twins_included(size: int) -> None:
    """A sibling of the tests on reference data, by way of the release."""
    data = firms(300)
    released = mv.protect(data, "microaggregate", group_size=size, rules=None).data
    expected = mdav(data, size)
    assert groups_of(np.unique(released, axis=0, return_inverse=True)[1]) == expected
    for group in expected:
        rows = sorted(group)
        assert released[rows] == pytest.approx(np.tile(data[rows].mean(axis=0), (len(rows), 1)), rel=1e-13)


# --- The values


@pytest.mark.parametrize("grouping", ["mdav", "univariate", "projection"])
def test_with_weights_the_weighted_means_are_kept_and_groups_still_count_records(
    grouping: microaggregate.Grouping,
) -> None:
    rng = np.random.default_rng(3)
    data, weights = rng.normal(size=(200, 3)), rng.uniform(0.1, 10, 200)
    step = Microaggregate(group_size=5, grouping=grouping)
    new, unweighted = masked(step, data, weights), masked(step, data)
    assert np.average(new, axis=0, weights=weights) == pytest.approx(
        np.average(data, axis=0, weights=weights), rel=1e-12, abs=1e-14
    )
    for one, other in zip(new.T, unweighted.T, strict=True):
        counts = np.unique(one, return_counts=True)[1]
        assert counts.tolist() == [5] * 40
        assert groups_of(np.unique(one, return_inverse=True)[1]) == groups_of(np.unique(other, return_inverse=True)[1])


@pytest.mark.parametrize("grouping", ["mdav", "projection"])
def test_covariances_shrink_by_those_within_the_groups(grouping: microaggregate.Grouping) -> None:
    data = firms(333)
    new = masked(Microaggregate(group_size=4, grouping=grouping), data)
    assert new.mean(axis=0) == pytest.approx(data.mean(axis=0), rel=1e-14)
    lost = np.cov(data.T) - np.cov(new.T)
    assert lost == pytest.approx(np.cov((data - new).T), rel=1e-9)
    assert np.linalg.eigvalsh(lost)[0] > 0


def test_means_of_groups_are_put_in_the_place_of_their_values() -> None:
    values, numbers = np.array([[1.0, 2.0, 6.0, 4.0]]), np.array([0, 1, 1, 0])
    assert group_means(values, numbers, None).tolist() == [[2.5, 4.0, 4.0, 2.5]]
    assert group_means(values, numbers, np.array([1.0, 3.0, 1.0, 2.0])).tolist() == [[3.0, 3.0, 3.0, 3.0]]


def test_whole_records_lose_less_than_records_in_the_order_of_one_component() -> None:
    data = firms(500)
    lost = {
        grouping: np.mean(np.var(data - masked(Microaggregate(grouping=grouping), data), axis=0) / np.var(data, axis=0))
        for grouping in ("mdav", "univariate", "projection")
    }
    assert lost["univariate"] < lost["mdav"] < lost["projection"]


@pytest.mark.parametrize("grouping", ["mdav", "univariate", "projection"])
def test_a_group_larger_than_the_table_is_refused(grouping: microaggregate.Grouping) -> None:
    with pytest.raises(ParameterError, match=r"^group_size: 9 records asked, but there are 8 rows"):
        Microaggregate(group_size=9, grouping=grouping).check(8, 1)
    data = np.random.default_rng(1).random((8, 2))
    Microaggregate(group_size=8, grouping=grouping).check(8, 1)
    assert masked(Microaggregate(group_size=8, grouping=grouping), data) == pytest.approx(
        np.tile(data.mean(axis=0), (8, 1)), rel=1e-15
    )


def test_small_tables_do_not_wait_for_numba() -> None:
    script = (
        "import sys, numpy as np, microveil as mv\n"
        "data = np.random.default_rng(1).standard_normal((1000, 13))\n"
        "mv.protect(data, 'microaggregate')\n"
        "mv.protect(data, 'microaggregate', grouping='univariate', sizes='minimum')\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
