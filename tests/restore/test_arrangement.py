"""Which record gets which value: values stay the column's, correlations of all kinds come back, public columns stay."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from microveil.core.rng import Stream, Streams
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import LabelColumns, Matrix, Microdata
from microveil.restore import Marginal, Settled, _arrange_kernels, arrange, calibrate
from microveil.restore.arrange import SETTLED, ExchangeSearch
from microveil.restore.features import SQUARES, feature_blocks

Array = NDArray[np.float64]
ROWS, WIDTH = 500, 5


def stream(seed: int = 1) -> Stream:
    return Streams.from_seed(seed).stream("arrange")


def values(seed: int = 0, rows: int = ROWS, columns: int = WIDTH) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(rng.standard_normal((rows, 1)) + 0.7 * rng.standard_normal((rows, columns)))


def table(data: Array, public: int = 0, weights: Array | None = None) -> Microdata:
    names = tuple(f"c{j}" for j in range(data.shape[1]))
    return Microdata(Matrix([np.ascontiguousarray(column) for column in data.T]), names, public, weights)


def arranged(original: Microdata, present: NDArray[np.bool_] | None = None, seed: int = 1) -> tuple[Array, Settled]:
    """From columns in random order, each on its own."""
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(column) for column in original.confidential.columns]
    masks = [None] * len(columns) if present is None else list(present.T)
    marginals = [
        Marginal(np.sort(c)) if mask is None or mask.all() else Marginal(np.sort(c[mask]), np.sort(c[~mask]), mask)
        for c, mask in zip(original.confidential.columns, masks, strict=True)
    ]
    found = arrange(columns.copy, marginals, original, present, stream(seed))
    return np.column_stack(found.columns), found.settled


def worst(before: Array, after: Array) -> tuple[float, float]:
    """The largest differences of Pearson's and of Spearman's correlations."""
    pearson = np.abs(np.corrcoef(before.T) - np.corrcoef(after.T)).max()
    return float(pearson), float(np.abs(spearmanr(before)[0] - spearmanr(after)[0]).max())


def test_correlations_of_values_and_ranks_come_back_from_independent_columns() -> None:
    data = values()
    found, settled = arranged(table(data))
    assert (np.sort(found, axis=0) == np.sort(data, axis=0)).all()
    pearson, spearman = worst(data, found)
    assert pearson <= 0.005
    assert spearman <= 0.005
    assert settled.correlation == pytest.approx(pearson, abs=1e-6)
    assert settled.rank_correlation == pytest.approx(spearman, abs=1e-6)
    assert np.mean(found == data) <= 0.02


def test_a_widening_comes_back_too() -> None:
    """Uncorrelated columns whose spreads go together: seen in the squares only."""
    rng = np.random.default_rng(3)
    spread = np.exp(0.8 * rng.standard_normal((800, 1)))
    data = spread * rng.standard_normal((800, 3))
    found, _ = arranged(table(data))
    before, after = (np.corrcoef(np.square(rankdata(side, axis=0) - 400.5).T)[0, 1] for side in (data, found))
    assert before > 0.3
    assert after == pytest.approx(before, abs=0.02)
    before, after = (np.corrcoef(np.abs(side).T)[0, 1] for side in (data, found))
    assert after > before / 2


def test_public_columns_stay_and_keep_their_correlations() -> None:
    data = values()
    original = table(data, public=2)
    found, _ = arranged(original)
    assert found.shape == (ROWS, WIDTH - 2)
    pearson, spearman = worst(data, np.hstack([data[:, :2], found]))
    assert max(pearson, spearman) <= 0.005


def test_with_weights_it_is_the_weighted_moments_that_come_back() -> None:
    data = values()
    weights = np.random.default_rng(1).choice([0.2, 1.0, 5.0], ROWS)
    found, *others = (arranged(table(data, weights=weights), seed=seed)[0] for seed in (1, 2, 3))
    sd, target = data.std(axis=0), np.average(data, axis=0, weights=weights)
    gaps = [np.abs(np.average(side, axis=0, weights=weights) - target) / sd for side in (found, *others)]
    assert np.mean([gap.max() for gap in gaps]) <= 0.02
    unweighted = [
        np.average(side, axis=0, weights=weights) for side in (data, np.random.default_rng(2).permutation(data))
    ]
    assert (np.abs(unweighted[1] - unweighted[0]) > 0.02 * sd).any()
    covariances = [np.cov(side.T, aweights=weights) for side in (data, found)]
    assert (np.abs(covariances[1] - covariances[0]) <= 0.05 * np.outer(sd, sd)).all()


def test_missing_cells_exchange_nothing_with_those_present() -> None:
    data = values()
    present = np.random.default_rng(4).random(data.shape) > 0.3
    # The larger the first column, the more likely the second is missing: what is kept is also who has an answer.
    present[:, 1] &= ~((data[:, 0] > np.median(data[:, 0])) & (np.arange(ROWS) % 2 == 0))
    data = np.where(present, data, 1e6 + data)  # what fills the holes must not leak out of them
    found, _ = arranged(table(data), present)
    for j in range(WIDTH):
        there = present[:, j]
        assert (np.sort(found[there, j]) == np.sort(data[there, j])).all()
        assert (np.sort(found[~there, j]) == np.sort(data[~there, j])).all()
    both = present[:, 0]
    before, after = (np.corrcoef(side[both, 0], present[both, 1])[0, 1] for side in (data, found))
    assert before < -0.15
    assert after == pytest.approx(before, abs=0.02)


@pytest.mark.parametrize(
    "odd",
    [
        np.where(np.arange(ROWS) < 2, 1.0, 0.0),
        np.where(np.arange(ROWS) % 2, 1.0, -1.0),
        1e9 + 1e-6 * values(7)[:, 0],
        1e-150 * values(7)[:, 0],
        np.where(np.arange(ROWS) == 3, 1e140, values(7)[:, 0]),
    ],
    ids=["rare", "two values", "far from zero", "tiny", "one enormous"],
)
def test_odd_columns_do_no_harm_to_others(odd: Array) -> None:
    data = np.column_stack([values(), odd])
    found, _ = arranged(table(data))
    assert (np.sort(found, axis=0) == np.sort(data, axis=0)).all()
    assert max(worst(data[:, :WIDTH], found[:, :WIDTH])) <= 0.03


def test_a_column_far_from_zero_keeps_its_correlations() -> None:
    """A spread of a billionth of the mean is a spread."""
    data = values()
    data[:, 2] = 1e9 + 1e-3 * data[:, 2]
    found, _ = arranged(table(data))
    shift = np.array([0, 0, 1e9, 0, 0])
    assert max(worst(data - shift, found - shift)) <= 0.005


def test_equal_columns_stay_nearly_equal() -> None:
    data = values()
    data[:, 1] = data[:, 0]
    found, _ = arranged(table(data))
    assert np.corrcoef(found[:, 0], found[:, 1])[0, 1] > 0.95


def test_few_rows_and_more_columns_than_rows_are_arranged_somehow() -> None:
    for rows, columns in ((3, 2), (5, 9), (20, 30)):
        data = values(rows=rows, columns=columns)
        found, settled = arranged(table(data))
        assert (np.sort(found, axis=0) == np.sort(data, axis=0)).all()
        assert settled is None, "all pairs of columns would have more sums than such a table can hide"


def test_the_original_is_not_touched() -> None:
    data = values()
    before = data.copy()
    original = table(data, public=1)
    arranged(original)
    assert (np.column_stack(list(original.values.columns)) == before).all()


def test_seeds_repeat_and_differ() -> None:
    original = table(values())
    assert (arranged(original)[0] == arranged(original)[0]).all()
    assert (arranged(original, seed=1)[0] != arranged(original, seed=2)[0]).mean() > 0.9


@pytest.mark.parametrize("rows", [ROWS, 10_000])
def test_the_number_of_threads_plays_no_part(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        found.append(arranged(table(values(rows=rows)))[0])
    assert (found[0] == found[1]).all()


def test_among_many_columns_fewer_exchanges_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs more with the square of their number; without a limit a hundred columns took minutes."""
    arrange_module = importlib.import_module("microveil.restore.arrange")
    monkeypatch.setattr(arrange_module, "PATIENCE", 10**9)
    tried = {}
    for columns in (13, 39):
        calls: list[int] = []
        monkeypatch.setattr(_arrange_kernels, "exchange", lambda *_, calls=calls: (calls.append(1), (1, 1))[1])
        monkeypatch.setattr(arrange_module, "PROPOSALS", 200 * 13 * 270)
        arranged(table(values(rows=200, columns=columns)))
        tried[columns] = len(calls)
    assert tried == {13: 270, 39: 10}


# --- Labels, and bends


def labelled(seed: int = 3, rows: int = 1_000) -> tuple[Array, list[NDArray[np.intp]]]:
    """Two amounts, the second bent by the first; labels that go with the first, and with each other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    y = x**2 + 0.5 * rng.standard_normal(rows)
    group = np.digitize(x + 0.5 * rng.standard_normal(rows), [-1.0, 0.0, 1.0]).astype(np.intp)
    other = np.where(rng.random(rows) < 0.7, group % 2, rng.integers(0, 3, rows)).astype(np.intp)
    rare = np.where(np.arange(rows) < 3, 1, 0).astype(np.intp)
    return np.column_stack([x, y]), [group, other, rng.permutation(rare)]


def arranged_with_labels(seed: int = 1) -> tuple[Array, list[NDArray[np.intp]], Array, list[NDArray[np.intp]]]:
    data, labels = labelled()
    original = table(data)
    original = Microdata(
        original.values, original.names, labels=LabelColumns(("group", "other", "rare"), tuple(labels))
    )
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(column) for column in data.T]
    found = arrange(columns.copy, [Marginal(np.sort(c)) for c in data.T], original, None, stream(seed))
    return data, labels, np.column_stack(found.columns), found.labels


def test_two_way_tables_group_means_and_bends_come_back() -> None:
    data, labels, found, new = arranged_with_labels()
    for old, codes in zip(labels, new, strict=True):
        assert (np.bincount(old) == np.bincount(codes)).all()
    before, after = (np.bincount(3 * first + second, minlength=12) for first, second, _ in (labels, new))
    assert np.abs(before - after).sum() / 2 <= 0.01 * len(data)
    for level in range(4):
        gap = data[labels[0] == level].mean(axis=0) - found[new[0] == level].mean(axis=0)
        assert (np.abs(gap) <= 0.05 * data.std(axis=0)).all()
    bends = [np.corrcoef(side[:, 0] ** 2, side[:, 1])[0, 1] for side in (data, found)]
    assert bends[0] > 0.9
    assert bends[1] == pytest.approx(bends[0], abs=0.02)


def arranged_groups(data: Array, codes: NDArray[np.intp], marginals: list[Array], seed: int) -> tuple[Array, Array]:
    """Means of each group, before and after, in standard deviations: groups x columns."""
    plain = table(data)
    original = Microdata(plain.values, plain.names, labels=LabelColumns(("group",), (codes,)))
    rng = np.random.default_rng(seed)
    columns = [rng.permutation(column) for column in marginals]
    found = arrange(columns.copy, [Marginal(np.sort(c)) for c in marginals], original, None, stream(seed))
    sides = ((data, codes), (np.column_stack(found.columns), found.labels[0]))
    before, after = (np.array([x[own == g].mean(axis=0) for g in range(codes.max() + 1)]) for x, own in sides)
    return before / data.std(axis=0), after / data.std(axis=0)


def test_the_search_goes_on_while_the_mean_of_a_small_group_is_off() -> None:
    """Held against its sampling error alone, that of twenty records could be off by a tenth; and it counts the more."""
    data = np.log(values(rows=2_000))
    plain, codes = table(data), (np.arange(2_000) >= 20).astype(np.intp)
    search = ExchangeSearch(Microdata(plain.values, plain.names, labels=LabelColumns(("group",), (codes,))), None)
    small, large = search.blocks.levels.start, search.blocks.levels.start + 1
    error = np.zeros_like(search.target)
    for off, goes_on in ((0.03, False), (0.05, True)):
        error[0, small] = error[small, 0] = off * np.sqrt(20 / 2_000)
        assert (search._errors(error)[-1] > SETTLED[1]) == goes_on
    assert search.goal.weight[0, small] > 5 * search.goal.weight[0, large] > 0


def test_groups_have_their_means_where_a_column_has_lost_spread() -> None:
    """Drawn-in ends cost an eighth of the standard deviation: means of groups come back in the original's."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 2, 2_000).astype(np.intp)
    data = rng.standard_normal((2_000, 2)) + codes[:, None]
    narrow = [0.875 * (column - column.mean()) + column.mean() for column in data.T]
    before, after = arranged_groups(data, codes, narrow, 1)
    assert np.abs(before - after).max() <= 0.03


def test_means_and_small_tables_come_before_mean_ranks() -> None:
    """A mean that is left out is off by its sampling error, however weak; mean ranks follow the means."""
    rng = np.random.default_rng(3)
    data = rng.standard_normal((1_200, 12))
    plain, codes = table(data), rng.integers(0, 40, 1_200).astype(np.intp)
    search = ExchangeSearch(Microdata(plain.values, plain.names, labels=LabelColumns(("group",), (codes,))), None)
    means, ranks = (search.goal.fitted[search.blocks.layers[layer], search.blocks.levels] for layer in (0, 1))
    assert means[:, :40].mean() > 0.9
    assert ranks[:, :40].mean() < 0.5


@pytest.mark.parametrize(("rows", "most"), [(150, 15), (300, 60), (600, 240)])
def test_small_tables_have_fewer_moments_with_labels(rows: int, most: int) -> None:
    """One for every two records told who is in a file of 300."""
    rng = np.random.default_rng(4)
    plain, labels = table(np.log(values(rows=rows))), [rng.integers(0, 2, rows).astype(np.intp) for _ in range(20)]
    names = tuple(f"l{j}" for j in range(20))
    search = ExchangeSearch(Microdata(plain.values, plain.names, labels=LabelColumns(names, tuple(labels))), None)
    own, fitted = search.blocks.levels, np.triu(search.goal.weight > 0)
    count = np.count_nonzero(fitted[: own.start, own]) / 2 + np.count_nonzero(fitted[own, own]) / 4  # two levels each
    assert 0.5 * most <= count <= most


def bend_is_fitted(data: Array) -> bool:
    """Is the moment between the squared values of the first column and the values of the second a goal?"""
    search = ExchangeSearch(table(data), None)
    squares, values = (search.blocks.layers[layer] for layer in (SQUARES, 0))
    return bool(search.goal.fitted[squares, values][0, 1])


def test_a_bend_that_few_records_decide_is_left_to_chance() -> None:
    """Fitted to, it would tell what these records have."""
    rng = np.random.default_rng(4)
    data = np.exp(rng.standard_normal((2_000, 3)))
    assert bend_is_fitted(data)
    data[:5, :2] = 60.0 + rng.random((5, 2))
    assert not bend_is_fitted(data)


def test_labels_do_not_stay_with_their_records() -> None:
    data, labels, found, new = arranged_with_labels()
    for old, codes in zip(labels[:2], new, strict=False):
        shares = np.bincount(old) / old.size
        assert np.mean(old == codes) <= np.square(shares).sum() + 0.05
    assert np.mean(found == data) <= 0.02


def test_a_label_of_few_records_goes_anywhere() -> None:
    """Nothing is fitted to it, so that what it has in common with others is chance."""
    places = [np.flatnonzero(arranged_with_labels(seed)[3][2]) for seed in range(1, 4)]
    assert len({tuple(rows) for rows in places}) == 3


def test_labels_alone_are_arranged() -> None:
    _, labels = labelled()
    ones = Matrix([np.ones(1_000)])
    original = Microdata(ones, ("1",), 1, labels=LabelColumns(("group", "other", "rare"), tuple(labels)))
    found = arrange(list, [], original, None, stream())
    before, after = (np.bincount(3 * first + second, minlength=12) for first, second, _ in (labels, found.labels))
    assert np.abs(before - after).sum() / 2 <= 0.01 * 1_000


# --- Its pieces


@pytest.mark.parametrize("column", [values()[:, 0], np.round(values()[:, 0]), np.zeros(9), np.array([2.0])])
def test_ranks_are_the_usual_ones(column: Array) -> None:
    assert (mid_ranks(column) == rankdata(column)).all()


def test_features_have_mean_zero_and_variance_one() -> None:
    for column in (values()[:, 0], np.round(values()[:, 0]), 1e9 + 1e-3 * values()[:, 0]):
        blocks = feature_blocks(1, [], 0)
        features = blocks.features([column], [], None)
        assert features.shape == (ROWS, 5)
        assert np.abs(features.mean(axis=0)).max() <= 1e-4
        assert features.std(axis=0) == pytest.approx(np.ones(5), abs=1e-4)


def test_a_column_of_two_values_has_no_bends_of_its_own() -> None:
    flag = np.where(np.arange(100) % 2, 1.0, 0.0)
    features = feature_blocks(2, [], 0).features([flag, np.full(100, 3.0)], [], None)
    assert features.shape == (100, 10)
    assert (features[:, 0] == features[:, 2]).all(), "its values and its ranks"
    assert (features[:, [4, 8]] == 0.0).all()
    assert (features[:, 1::2] == 0.0).all(), "a constant has nothing at all"


def test_levels_of_few_records_share_a_feature_or_have_none() -> None:
    """Nor has the rarest of the others then: the features of all others are one less that of the few."""
    codes = np.repeat(np.arange(6), [40, 40, 6, 6, 4, 4]).astype(np.intp)
    flags = np.repeat([0, 1], [95, 5]).astype(np.intp)
    blocks = feature_blocks(0, [codes, flags], 0)
    assert [block.levels.tolist() for block in blocks.labels] == [[0, 1, 2, 2, 2, 2], [-1, -1]]
    three = np.repeat([0, 1, 2], [60, 35, 5]).astype(np.intp)
    assert feature_blocks(0, [three], 0).labels[0].levels.tolist() == [0, -1, -1]
    features = blocks.features([], [codes, flags], None)
    assert features[:, :3].mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)


def test_calibration_gives_back_moments_also_with_public_columns() -> None:
    data = values()
    for weights in (None, np.random.default_rng(1).uniform(1, 9, ROWS)):
        original = table(data, public=2, weights=weights)
        columns = [np.random.default_rng(j).permutation(c) for j, c in enumerate(original.confidential.columns)]
        assert calibrate(columns, original)
        now = np.column_stack([data[:, :2], *columns])
        for moment in (lambda v, w: np.average(v, axis=0, weights=w), lambda v, w: np.cov(v.T, aweights=w)):
            assert np.allclose(moment(now, weights), moment(data, weights), rtol=1e-9, atol=1e-9)


def test_collinear_columns_are_not_calibrated() -> None:
    data = values()
    columns = [data[:, 0].copy() for _ in range(WIDTH)]
    assert not calibrate(columns, table(data))
