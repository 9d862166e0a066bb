"""Secondary suppression: safe by an independent rank check, greedy, singletons, priorities, linked tables."""

import math
from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import bounds, known_cells, plain_greedy
from properties import examples

from microveil import tables
from microveil.core.errors import DataError, ParameterError
from microveil.tables import Dominance, FewContributors, PPercent, SmallCount
from microveil.tables.suppress import worth

HIERARCHIES = [
    None,
    {"top": ["0", "1"], "rest": ["2", "3"]},
    {"top": {"mid": ["0", "1"], "2": []}, "3": []},
    {"alone": ["0"], "others": ["1", "2", "3"]},
]


def table_of(counts, hierarchies=None):
    """A table of counts from an array, with dimensions a, b, ..."""
    places = np.indices(counts.shape).reshape(counts.ndim, -1)
    names = "abcd"[: counts.ndim]
    frame = pl.DataFrame(dict(zip(names, places, strict=True)) | {"n": counts.ravel()})
    return tables.Table(frame, list(names), hierarchies=hierarchies)


@st.composite
def small_tables(draw):
    shape = draw(st.sampled_from([(4,), (4, 3), (4, 4), (4, 3, 2), (4, 2, 2)]))
    size = math.prod(shape)
    counts = np.array(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    chosen = draw(st.sampled_from(HIERARCHIES))
    return table_of(counts.reshape(shape), chosen and {"a": chosen})


@settings(max_examples=examples(60))
@given(small_tables(), st.sampled_from(["published", "candidates", "suppressed"]), st.integers(2, 5))
def test_no_hidden_cell_follows_from_the_published_ones(table, zeros, limit):
    found = tables.suppress(table, SmallCount(limit), zeros=zeros)
    assert (found.suppressed | ~found.primary).all()
    known = known_cells(table, found.suppressed)
    assert not known[found.primary[known]].size
    empty = table.published_counts == 0
    assert zeros != "published" or not found.suppressed[empty].any()
    assert zeros != "suppressed" or found.primary[empty].all()


@settings(max_examples=examples(40))
@given(small_tables(), st.booleans())
def test_the_pattern_is_that_of_going_through_the_cells_one_by_one(table, zeros_shown):
    zeros = "published" if zeros_shown else "candidates"
    found = tables.suppress(table, SmallCount(4), zeros=zeros, singletons="ignored")
    known = (table.published_counts == 0) & zeros_shown
    order = np.argsort(-worth(table, np.ones(table.count)), kind="stable")
    order = order[~(known | found.primary)[order]]
    assert np.array_equal(found.suppressed, plain_greedy(table, found.primary, order, known))


@settings(max_examples=examples(30))
@given(small_tables())
def test_ones_do_not_give_themselves_away_in_sums(table):
    """Where zeros are shown, everybody knows that hidden inner cells are at least one."""
    found = tables.suppress(table, SmallCount(3))
    if found.warnings:
        return
    inner = np.flatnonzero(table.inner_values == 1)
    least = [0 if value == 0 else 1 for value in table.inner_values]
    for cell in inner[:4]:
        assert bounds(table, found.suppressed, cell, least)[1] > 1 + 1e-7


def test_two_ones_that_come_to_two_need_a_third_cell():
    counts = np.array([[1, 1, 9, 8], [5, 6, 7, 9], [9, 8, 6, 5]])
    table = table_of(counts)
    plain = tables.suppress(table, SmallCount(2), singletons="ignored")
    row = plain.suppressed.reshape(4, 5)[1]
    assert row.tolist() == [False, True, True, False, False]  # so the two are known to come to two
    guarded = tables.suppress(table, SmallCount(2))
    assert guarded.suppressed.reshape(4, 5)[1].sum() == 3


def records(seed, rows=60, people=12):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "a": rng.integers(0, 4, rows),
            "b": rng.integers(0, 4, rows),
            "who": rng.integers(0, people, rows),
            "amount": np.round(rng.lognormal(2, 1.5, rows), 2),
        }
    )


@pytest.mark.parametrize("seed", range(8))
def test_who_is_alone_in_a_cell_learns_no_other(seed):
    frame = records(seed)
    table = tables.Table(frame, ["a", "b"], "amount", contributors="who")
    found = tables.suppress(table, Dominance(2, 90))
    assert not found.warnings
    given_ = table.contributions
    cells, first, times = np.unique(given_.cells, return_index=True, return_counts=True)
    alone = dict(zip(cells[times == 1].tolist(), given_.who[first[times == 1]].tolist(), strict=True))
    matrix = table.matrix.toarray()
    for person in set(alone.values()):
        own = [cell for cell, who in alone.items() if who == person]
        for cell in known_cells(table, found.suppressed, own):
            inside = given_.who[np.isin(given_.cells, np.flatnonzero(matrix[cell]))]
            assert not found.primary[cell] or set(inside.tolist()) == {person}


def test_singletons_matter_in_some_of_these_tables():
    hidden = {}
    for choice in ("protected", "ignored"):
        made = [tables.Table(records(seed), ["a", "b"], "amount", contributors="who") for seed in range(8)]
        hidden[choice] = sum(
            int(tables.suppress(t, Dominance(2, 90), singletons=choice).suppressed.sum()) for t in made
        )
    assert hidden["protected"] > hidden["ignored"]


def test_row_order_and_repetition_change_nothing():
    frame = records(3, rows=200)
    first = tables.suppress(tables.Table(frame, ["a", "b"], "amount", contributors="who"), PPercent(10))
    turned = frame.sample(fraction=1.0, shuffle=True, seed=1)
    second = tables.suppress(tables.Table(turned, ["a", "b"], "amount", contributors="who"), PPercent(10))
    assert first.cells.equals(second.cells)
    assert first.suppressed.sum() > first.primary.sum()


def test_linked_tables_are_protected_together():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({name: rng.integers(0, size, 150) for name, size in (("a", 4), ("b", 5), ("c", 3))})
    linked = [["a", "b"], ["b", "c"]]
    table = tables.Table(frame, ["a", "b", "c"], None, linked=linked)
    found = tables.suppress(table, SmallCount(5))
    shared = [row for row, name in enumerate(table.labels["b"]) if table.labels["a"][row] == table.labels["c"][row]]
    assert len(shared) == 6  # the total and five codes of b: cells of both tables, and one cell each
    assert table.count == 5 * 6 + 6 * 4 - 6
    assert found.primary.any()
    assert not known_cells(table, found.suppressed).size


def test_linked_tables_of_amounts_are_protected_from_contributors():
    frame = records(2, rows=120).with_columns(c=pl.col("who") % 3)
    table = tables.Table(frame, ["a", "b", "c"], "amount", contributors="who", linked=[["a", "b"], ["b", "c"]])
    found = tables.suppress(table, Dominance(1, 60))
    assert found.primary.sum() < found.suppressed.sum() < table.count
    assert not found.warnings
    assert not known_cells(table, found.suppressed).size


def test_ones_of_linked_tables_do_not_give_themselves_away():
    """Hidden cells of linked tables are at least one where zeros are shown; what lies behind them may be anything."""
    frame = pl.DataFrame({"a": [0, 1] + [2] * 9, "b": [0, 1, 0, 0, 0, 1, 1, 1, 2, 2, 2], "c": [0, 1] * 5 + [1]})
    table = tables.Table(frame, ["a", "b", "c"], None, linked=[["a"], ["b", "c"]])
    found = tables.suppress(table, SmallCount(2))
    assert found.suppressed[table.labels["a"] != "Total"].all()  # with 2 shown, 0 and 1 would come to two
    assert not found.warnings


def test_linked_tables_protected_apart_give_cells_away():
    """What linking is for: two tables share their column b, and cells hidden in one can be read from the other."""
    frame = pl.DataFrame(
        {"a": [0, 0, 1, 1, 2, 2] * 1, "b": [0, 1] * 3, "c": [0, 1, 0, 1, 0, 1], "n": [1, 9, 8, 1, 7, 9]}
    )
    both = tables.Table(frame, ["a", "b", "c"], "n", linked=[["a", "b"], ["a", "c"]])  # b and c are the same thing
    found = tables.suppress(both, SmallCount(2))
    assert not known_cells(both, found.suppressed).size
    alone = tables.suppress(tables.Table(frame.drop("c"), ["a", "b"], "n"), SmallCount(2))
    by_name = {alone.table.name_of(row) for row in np.flatnonzero(alone.suppressed)}
    assert by_name == {
        f"(a={both.labels['a'][row]}, b={both.labels['b'][row]})"
        for row in np.flatnonzero(found.suppressed)
        if both.labels["c"][row] == "Total"
    }


def moving(table, suppressed):
    """How far each published cell can move while those that are shown stay, by a dense null space."""
    matrix = table.matrix.toarray().astype(float)
    _, sizes, ways = np.linalg.svd(matrix[~suppressed])
    free = ways[np.count_nonzero(sizes > 1e-9 * sizes[0]) :]
    return np.linalg.norm(matrix @ free.T, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "spread"), [(8.0, 0.5), (9.0, 0.0)])
def test_a_larger_table_is_safe(mean, spread):
    """Sparse where small cells flock together, and one dense system of equations where they do not."""
    rng = np.random.default_rng(3)
    effects = [np.exp(spread * rng.standard_normal(9)) for _ in range(3)]
    table = table_of(rng.poisson(mean * np.einsum("i,j,k->ijk", *effects)))
    found = tables.suppress(table, SmallCount(4))
    reach = moving(table, found.suppressed)
    assert reach[found.suppressed].min() > 1e-7
    assert reach[~found.suppressed].max() < 1e-9
    assert found.primary.sum() < found.suppressed.sum() < table.count / 2


def test_a_contributor_who_is_alone_must_not_have_the_rest_from_the_total():
    frame = pl.DataFrame({"a": ["x", "y"], "who": ["A", "B"], "amount": [10.0, 20.0]})
    table = tables.Table(frame, ["a"], "amount", contributors="who")
    assert tables.suppress(table, FewContributors(2), singletons="ignored").suppressed.tolist() == [False, True, True]
    assert tables.suppress(table, FewContributors(2)).suppressed.all()
    kept = tables.suppress(table, FewContributors(2), priority=[np.inf, 1.0, 1.0])
    assert "can be worked out by somebody who is alone" in kept.warnings[0]


def test_ones_that_cannot_be_protected_are_told():
    table = tables.Table(pl.DataFrame({"a": ["x", "y", "z"], "n": [1, 1, 9]}), ["a"])
    assert not tables.suppress(table, SmallCount(2)).warnings
    kept = tables.suppress(table, SmallCount(2), priority=[np.inf, 1.0, 1.0, np.inf])
    assert kept.suppressed.tolist() == [False, True, True, False]
    assert any("sum" in warning for warning in kept.warnings)


# Cells that people want to keep.


def test_priority_moves_suppression_elsewhere():
    counts = np.array([[1, 9, 8, 7], [5, 6, 7, 9], [9, 8, 6, 5], [7, 7, 8, 8]])
    table = table_of(counts)
    before = tables.suppress(table, SmallCount(2))
    secondary = np.flatnonzero(before.suppressed & ~before.primary)
    wanted = {name: table.labels[name][secondary[:1]].tolist() for name in ("a", "b")} | {"priority": [100.0]}
    after = tables.suppress(table, SmallCount(2), priority=pl.DataFrame(wanted))
    assert not after.suppressed[secondary[0]]
    assert not known_cells(table, after.suppressed).size
    numbers = np.ones(table.count)
    numbers[secondary[0]] = 100
    again = tables.suppress(table, SmallCount(2), priority=numbers)
    assert np.array_equal(after.suppressed, again.suppressed)
    columns = tables.suppress(table, SmallCount(2), priority=wanted)
    assert np.array_equal(after.suppressed, columns.suppressed)


def test_priority_from_a_column_of_the_cells():
    frame = pl.DataFrame({"a": ["x", "y", "z"], "n": [1, 5, 6], "keep": [1.0, 9.0, 1.0]})
    table = tables.Table(frame, ["a"])
    assert tables.suppress(table, SmallCount(2)).suppressed.tolist() == [False, True, True, False]
    assert tables.suppress(table, SmallCount(2), priority="keep").suppressed.tolist() == [False, True, False, True]


def test_cells_of_infinite_priority_are_shown_or_it_is_refused():
    table = table_of(np.array([[1, 9, 8], [5, 6, 7], [9, 8, 6]]))
    keep = np.ones(table.count)
    before = tables.suppress(table, SmallCount(2))
    secondary = np.flatnonzero(before.suppressed & ~before.primary)
    keep[secondary[0]] = np.inf
    after = tables.suppress(table, SmallCount(2), priority=keep)
    assert not after.suppressed[secondary[0]]
    assert not known_cells(table, after.suppressed).size
    keep[~before.primary] = np.inf
    with pytest.raises(ParameterError, match="1 sensitive cells follow from cells that are shown"):
        tables.suppress(table, SmallCount(2), priority=keep)
    keep[:] = np.inf
    with pytest.raises(ParameterError, match="that must be shown are sensitive"):
        tables.suppress(table, SmallCount(2), priority=keep)


@pytest.mark.parametrize(
    ("priority", "problem"),
    [
        ([1.0, 2.0], "2 numbers for 16 cells"),
        (np.full(16, -1.0), "missing or negative"),
        ("nothing", "no column 'nothing'"),
        ({"a": [0], "priority": [1.0]}, "no column 'b'"),
        ({"a": [0], "b": [0]}, "no column 'priority'"),
    ],
)
def test_bad_priorities_are_refused(priority, problem):
    with pytest.raises(ParameterError, match=problem):
        tables.suppress(table_of(np.arange(9).reshape(3, 3)), SmallCount(2), priority=priority)


def test_priority_column_needs_cells():
    with pytest.raises(ParameterError, match="made from records"):
        tables.suppress(tables.Table(records(0), ["a", "b"], None), SmallCount(2), priority="amount")


# Choices and rules.


def test_choices_are_declared():
    table = table_of(np.arange(9).reshape(3, 3))
    with pytest.raises(ParameterError, match="zeros"):
        tables.suppress(table, SmallCount(2), zeros="gone")
    with pytest.raises(ParameterError, match="rules"):
        tables.suppress(table)


def test_negative_amounts_can_be_refused():
    frame = pl.DataFrame({"a": ["x", "x", "y", "y"], "amount": [5.0, -3.0, 2.0, 2.0]})
    table = tables.Table(frame, ["a"], "amount", contributors=True)
    assert tables.suppress(table, Dominance(1, 60)).primary.tolist() == [False, True, False]
    with pytest.raises(DataError, match="negative"):
        tables.suppress(table, Dominance(1, 60), negatives="refused")


def test_reasons_name_the_rule():
    table = tables.Table(records(1), ["a", "b"], "amount", contributors="who")
    found = tables.suppress(table, FewContributors(2), Dominance(1, 70))
    assert set(found.reasons) == {"", "FewContributors", "Dominance", "secondary"}
    assert ((found.reasons != "") == found.suppressed).all()


def test_nothing_sensitive_nothing_hidden():
    found = tables.suppress(table_of(np.full((3, 3), 9)), SmallCount(4))
    assert not found.suppressed.any()


def test_everything_is_hidden_where_there_is_no_other_way():
    found = tables.suppress(tables.Table(pl.DataFrame({"a": ["x"], "n": [2]}), ["a"]), SmallCount(4))
    assert found.suppressed.all()


@pytest.mark.slow
def test_a_table_of_four_dimensions():
    rng = np.random.default_rng(2)
    table = table_of(rng.poisson(6, (3, 3, 3, 3)), {"a": {"low": ["0", "1"], "high": ["2"]}})
    found = tables.suppress(table, SmallCount(3))
    assert found.primary.any()
    assert not known_cells(table, found.suppressed).size


def test_all_patterns_of_a_tiny_table_are_safe():
    for counts in product(range(3), repeat=4):
        table = table_of(np.array(counts).reshape(2, 2))
        found = tables.suppress(table, SmallCount(2))
        assert not found.primary[known_cells(table, found.suppressed)].any()
