"""Columns that follow from an amount are computed anew: what goes with them comes back, and no record does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.core.table import Bands, LabelColumns, Matrix, Microdata
from microveil.restore.arrange import ExchangeSearch
from microveil.restore.features import LEVELS, bands_together, feature_blocks, heaps_of

ROWS = 2_000
CUTS = (6, 15, 24, 65)


def people(seed: int = 0) -> pd.DataFrame:
    """Persons with an age, an age group and a fare that follow from it, and what belongs to the group."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, ROWS)
    band = np.searchsorted(CUTS, age, side="right")
    group = np.array(["child", "pupil", "young", "adult", "old"])[band]
    young = group == "young"
    return pd.DataFrame(
        {
            "age": age,
            "group": group,
            "fare": np.array([0, 40, 95, 70, 20])[band],
            "income": np.exp(7 + 0.5 * rng.standard_normal(ROWS) - 0.8 * young),
            "visits": rng.poisson(np.where(young, 9, 3)),
            "club": np.where(rng.random(ROWS) < np.where(young, 0.7, 0.2), "yes", "no"),
        }
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_groups_that_follow_from_an_amount_keep_their_means_and_tables(seed: int) -> None:
    before = people()
    release = mv.protect(before, seed=seed)
    after = release.data
    assert {"group follows from age: by its value", "fare follows from age: by its value"} <= set(release.rules)
    for name in ("income", "visits"):
        means = [side.groupby("group")[name].mean() for side in (before, after)]
        assert (means[0] - means[1]).abs().max() <= 0.05 * before[name].std()
        linear = [np.corrcoef(side["fare"], side[name])[0, 1] for side in (before, after)]
        assert linear[1] == pytest.approx(linear[0], abs=0.01)
    tables = [pd.crosstab(side["group"], side["club"], normalize=True) for side in (before, after)]
    assert (tables[0] - tables[1]).abs().to_numpy().sum() / 2 <= 0.03


def test_a_number_that_follows_from_another_keeps_its_bends() -> None:
    """Its value and its square move along with the column that it follows from."""
    rng = np.random.default_rng(3)
    month = rng.integers(0, 24, ROWS)
    price = np.array([2, 9, 1, 7, 3, 8, 4, 6, 2, 5, 9, 1])[month // 2] + 0.0
    before = pd.DataFrame({"month": month, "price": price, "sold": (price - 5) ** 2 + 9 * rng.standard_normal(ROWS)})
    bends = []
    for side in (before, mv.protect(before, seed=1).data):
        score = (side["price"] - side["price"].mean()) / side["price"].std()
        bends.append(np.corrcoef(score**2, side["sold"])[0, 1])
    assert bends[0] > 0.4
    assert bends[1] == pytest.approx(bends[0], abs=0.03)


def test_records_between_the_cuts_of_two_rules_are_no_goal() -> None:
    """The difference of both would be these records."""
    column = np.arange(100.0)
    at_30, at_33, at_60 = (Bands("c", np.array([cut - 0.5]), np.array([0, 1]), labels=True) for cut in (30, 33, 60))
    (taken,) = bands_together([at_30, at_33], column)
    assert taken.cuts.tolist() == [29.5]
    (taken,) = bands_together([at_30, at_60], column)
    assert taken.values.tolist() == [0, 1, 2]


def test_what_follows_moves_along_with_its_column() -> None:
    column, other = np.arange(100.0), np.random.default_rng(1).random(100)
    bands = Bands("c", np.array([29.5]), np.array([0, 1]), labels=True)
    blocks = feature_blocks(2, [], 0, squares=False, bands=[(0, bands, column, LEVELS)])
    assert blocks.owner.tolist() == [0, 1] * 4 + [0, 0]
    assert blocks.moving.tolist() == [[0, 8, 10], [1, 0, 0]]
    table = Microdata(Matrix([column, other]), ("c", "d"), bands=(bands,))
    fitted = ExchangeSearch(table, None).goal.fitted
    assert fitted[1, 8:].all()
    assert not fitted[0, 8:].any(), "its own column's moments with it are fixed"


@pytest.mark.parametrize(("apart", "goal"), [(1, False), (9, False), (40, True)])
def test_a_label_that_differs_from_a_band_in_a_few_records_is_no_goal(apart: int, goal: bool) -> None:
    """Both together would say which records differ."""
    column, other = np.arange(400.0), np.random.default_rng(1).random(400)
    bands = Bands("c", np.array([149.5]), np.array([0, 1]), labels=True)
    label = (column >= 150).astype(np.intp)
    label[140 : 140 + apart] = 1 - label[140 : 140 + apart]
    table = Microdata(Matrix([column, other]), ("c", "d"), labels=LabelColumns(("label",), (label,)), bands=(bands,))
    search = ExchangeSearch(table, None)
    along = np.flatnonzero((search.blocks.kind >= LEVELS) & (search.blocks.owner == 0))
    assert along.size == 2
    assert bool(search.goal.fitted[np.ix_(along, np.flatnonzero(search.blocks.owner == 2))].any()) is goal


@pytest.mark.parametrize("seed", [1, 2])
def test_a_large_table_of_labels_is_not_left_to_chance_among_many_group_means(seed: int) -> None:
    """Region by industry of the bundled survey has 80 cells, and stands among 600 means of groups."""
    before = pd.read_csv(mv.example_file())
    after = mv.protect(before, seed=seed).data
    tables = [pd.crosstab(side["region"], side["industry"], normalize=True) for side in (before, after)]
    alone = np.outer(tables[0].sum(axis=1), tables[0].sum(axis=0))
    apart = [float(np.abs(tables[0] - other).to_numpy().sum()) / 2 for other in (tables[1], alone)]
    assert apart[1] > 0.07, "there is a relation to be kept"
    assert apart[0] <= 0.02


def test_heaps_are_levels_of_their_own_and_all_else_is_one() -> None:
    column = np.concatenate([np.zeros(30), np.full(6, 2.0), np.full(20, 9.0), np.linspace(1, 12, 44)])
    (heaps,) = heaps_of("c", column)
    assert heaps.of(np.array([-1.0, 0.0, 1e-9, 2.0, 8.999, 9.0, 9.001])).tolist() == [0, 1, 0, 0, 0, 2, 0]
    assert heaps_of("c", np.arange(100.0)) == []
    assert heaps_of("flag", np.repeat([0.0, 1.0], 50)) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_heaps_of_two_columns_meet_as_before(seed: int) -> None:
    """Numbers filled in where an answer was missing, in two columns together: no polynomial of the ranks tells that."""
    rng = np.random.default_rng(5)
    missing = rng.random(500) < 0.2
    columns = np.exp(rng.standard_normal((500, 1)) + rng.standard_normal((500, 12)))
    columns[missing, 0], columns[missing & (rng.random(500) < 0.8), 1] = 1.5, 1.2
    before = pd.DataFrame(columns, columns=[f"c{j}" for j in range(12)])
    both = [np.mean((side["c0"] == 1.5) & (side["c1"] == 1.2)) for side in (before, mv.protect(before, seed=seed).data)]
    assert both[0] > 0.15
    assert both[1] == pytest.approx(both[0], abs=0.02)
