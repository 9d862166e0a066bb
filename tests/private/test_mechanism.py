"""What one record changes, and what the ledger says of it."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from microveil.private import moments
from microveil.private.budget import expected_error, sensitivities
from microveil.private.consistent import consistent
from microveil.private.differences import difference
from microveil.private.distributions import Distribution, Scale, amount_distribution, on_simplex
from microveil.private.mechanism import Account, epsilon_of, largest_rho
from microveil.private.moments import CUT_OFF, MOST_CUT_OFF, UNIT, MomentGroup
from microveil.private.targets import Records, Targets, amount_features, groups, measured

LEVELS = (2, 3, 7)
SHARES = {f"c{k}": np.full(size, 1 / size) for k, size in enumerate(LEVELS)}


def _records(rng, rows, step=None):
    """Records all over, and adversarial ones: at the ends, in the middle, missing, of no level."""
    scale = Scale(-50.0, 100.0, step)
    amounts = {}
    for j in range(3):
        values = rng.uniform(-50, 100, rows)
        values[: rows // 10] = rng.choice([-50.0, 100.0, 0.0, 25.0, np.nan, 1e300], rows // 10)
        amounts[f"x{j}"] = (scale, scale.cells_of(values))
    codes = {f"c{k}": (size, rng.integers(-1, size, rows)) for k, size in enumerate(LEVELS)}
    return Records(rows, amounts, codes)


@pytest.mark.parametrize("rows", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cut_off", [CUT_OFF, MOST_CUT_OFF])
def test_no_record_changes_a_group_of_moments_by_more_than_its_sensitivity(rows, cut_off):
    rng = np.random.default_rng(1)
    records = _records(rng, rows)
    known = {}
    for name, (scale, _) in records.amounts.items():
        edges = np.unique(np.append(rng.integers(1, scale.cells, 9), [0, scale.cells]))
        known[name] = Distribution(scale, edges, rng.dirichlet(np.ones(edges.size - 1) / 4))
    known["x2"] = Distribution(scale, np.array([0, 1, 2, scale.cells]), np.array([0.0, 1.0, 0.0]))  # all in one cell
    told = sensitivities(3, LEVELS, cut_off)
    for group in groups(records, known, SHARES, list(told), cut_off):
        square = sum(
            np.square(one.features).sum(axis=1) * np.square(other.features).sum(axis=1) for one, other in group.pairs
        )
        assert math.sqrt(square.max()) <= group.sensitivity
        # The bound is no idle one; values as far out as they may be in all columns are rare by design.
        assert square.max() >= (0.3 if cut_off == CUT_OFF else 0.001) * group.sensitivity**2
        assert group.sensitivity == told[group.name] * UNIT**2  # the budget counts with the same


def test_a_record_of_ends_is_as_far_out_as_the_bound_says():
    scale = Scale(0.0, 1e6)
    cells = scale.cells_of(np.array([1e6, np.inf]))
    known = {name: Distribution(scale, np.array([0, 1, scale.cells]), np.array([1.0, 0.0])) for name in "ab"}
    records = Records(2, {"a": (scale, cells), "b": (scale, cells)}, {"c": (2, np.array([0, 1]))})
    told = sensitivities(2, (2,), MOST_CUT_OFF)
    for group in groups(records, known, {"c": np.full(2, 0.5)}, list(told), MOST_CUT_OFF):
        one = MomentGroup(group.name, [(_rows(a, [0]), _rows(b, [0])) for a, b in group.pairs])
        assert 0.99 * group.sensitivity <= np.linalg.norm(one.exact()) <= group.sensitivity


def _rows(block, rows):
    return replace(block, features=block.features[rows])


@pytest.mark.parametrize("name", ["ranks", "values", "shapes", "means", "tables", "spreads"])
def test_sums_of_neighbouring_tables_differ_by_the_products_of_one_record(name):
    rng = np.random.default_rng(2)
    records, edges = _records(rng, 60, step=1.0), np.array([0, 7, 90, 151])
    known = {x: Distribution(scale, edges, np.array([0.3, 0.6, 0.1])) for x, (scale, _) in records.amounts.items()}
    for gone in range(60):
        left = np.delete(np.arange(60), gone)
        less = Records(
            59,
            {x: (scale, cells[left]) for x, (scale, cells) in records.amounts.items()},
            {x: (size, codes[left]) for x, (size, codes) in records.categories.items()},
        )
        (whole,), (rest,) = (groups(those, known, SHARES, [name], MOST_CUT_OFF) for those in (records, less))
        change = whole.exact() - rest.exact()
        own = [np.outer(a.features[gone], b.features[gone]).ravel() for a, b in whole.pairs]
        assert (change == np.concatenate(own)).all()
        assert np.linalg.norm(change) <= whole.sensitivity


@pytest.mark.parametrize("rows", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_no_record_changes_the_squares_of_differences_by_more_than_their_sensitivity(rows):
    rng = np.random.default_rng(8)
    records, edges = _records(rng, rows), np.array([0, 7, 90, Scale(-50.0, 100.0).cells])
    known = {x: Distribution(scale, edges, np.array([0.3, 0.6, 0.1])) for x, (scale, _) in records.amounts.items()}
    pairs = []
    for group in groups(records, known, SHARES, ["ranks", "values"], MOST_CUT_OFF):
        for (one, other), sign, width in itertools.product(group.pairs, (1.0, -1.0), (1e-9, 0.013, 1.7)):
            found = difference(one, other, sign, width)
            pairs.append((found, found))
            some = rng.integers(0, rows, 40)
            alone = [difference(_rows(one, [row]), _rows(other, [row]), sign, width).features[0, 0] for row in some]
            assert found.features[some, 0].tolist() == alone  # whatever records stand beside it
    asked = MomentGroup("near", pairs)
    square = sum(np.square(one.features[:, 0]) ** 2 for one, _ in pairs)
    assert 0.3 * asked.sensitivity**2 <= square.max() <= asked.sensitivity**2


def test_amounts_that_are_nearly_alike_have_their_difference_back():
    rng, n = np.random.default_rng(9), 10_000
    scale, common = Scale(0.0, 200.0, 0.01), rng.normal(100, 20, n)
    values = {"a": common + rng.normal(0, 0.7, n), "b": 200 - common, "c": rng.normal(100, 20, n)}
    amounts = {name: (scale, scale.cells_of(own)) for name, own in values.items()}
    runs = [measured(Records(n, amounts, {}), Account(2.0, 1e-6)) for _ in range(10)]
    exact = measured(Records(n, amounts, {}), Account(math.inf, 1e-6))
    assert exact.near == {}  # nothing is gained by it
    assert all(list(found) == [(0, 1)] for run in runs for found in run.near.values())
    truth = exact.moments["ranks"][0, 1][0, 0]
    direct, near = np.array([[run.moments["ranks"][0, 1][0, 0], run.near["ranks"][0, 1]] for run in runs]).T - truth
    assert np.abs(near).mean() < np.abs(direct).mean() / 4


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1e150, 1e150), (1e15, 1e15 + 1), (0.0, 5e-324), (0.0, 9.0, 1.0)])
@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.0, 0.8]])
def test_features_of_every_cell_are_whole_and_bounded(bounds, shares):
    scale = Scale(*bounds)
    edges = np.array([0, 1, scale.cells - 1, scale.cells])
    found = amount_features(Distribution(scale, edges, np.array(shares)), CUT_OFF)
    assert (found == np.round(found)).all()
    assert np.abs(found[:, :-1]).max() <= moments.WAVE_BOUND
    assert np.abs(found[:, -1]).max() <= moments.value_bound(CUT_OFF)
    assert not found[-1].any()  # a missing cell
    assert found.shape == (scale.cells + 1, moments.WAVES + 1)


@pytest.mark.parametrize("bounds", [(1e15, 1e15 + 1), (-1e-320, 1e-320), (-50.0, 100.0), (0.0, 1e6, 0.01)])
def test_a_cell_does_not_depend_on_other_records(bounds):
    """Searches in what is out of order begin where the last one ended."""
    scale, rng = Scale(*bounds), np.random.default_rng(5)
    assert (np.diff(scale.edges) >= 0).all()
    values = np.append(rng.uniform(*bounds[:2], 500), [np.nan, np.inf, -np.inf, *bounds[:2]])
    alone = [scale.cells_of(values[[row]])[0] for row in range(values.size)]
    assert scale.cells_of(values).tolist() == alone


def test_loss_is_turned_into_epsilon_and_back():
    rho = largest_rho(1.0, 1e-6)
    assert epsilon_of(rho, 1e-6) <= 1.0
    assert epsilon_of(rho * 1.001, 1e-6) > 1.0
    for large in (1e4, 1e300):
        assert largest_rho(large, 1e-6) == pytest.approx(large, rel=0.1)
    # The simple bound of Bun and Steinke allows less.
    assert rho > (math.sqrt(math.log(1e6) + 1) - math.sqrt(math.log(1e6))) ** 2


def test_nothing_is_answered_beyond_the_budget():
    account = Account(1.0, 1e-6)
    account.noisy("all", np.array([1]), 1.0, account.rho * 0.999)
    with pytest.raises(AssertionError, match="spent"):
        account.noisy("more", np.array([1]), 1.0, account.rho * 0.01)
    ledger = account.ledger()
    assert 0 < ledger.spent_epsilon <= ledger.epsilon
    assert [entry.query for entry in ledger.entries] == ["all"]


def test_noise_has_the_size_that_the_ledger_tells():
    account = Account(1.0, 1e-6, contributions=3)
    answers = account.noisy("zeros", np.zeros(4_000, np.int64), 2.0, account.rho * 0.5)
    told = account.ledger().entries[0]
    assert told.noise_sd == pytest.approx(6 / math.sqrt(2 * told.rho), rel=1e-6)
    assert answers.std() == pytest.approx(told.noise_sd, rel=0.06)
    assert (answers == np.round(answers)).all()


def test_errors_are_as_large_as_expected_error_tells():
    rng, n = np.random.default_rng(6), 4_000
    scale, common = Scale(0.0, 200.0, 1.0), rng.normal(size=n)  # correlations of one half
    amounts = {f"x{j}": (scale, scale.cells_of(100 + 20 * (common + rng.normal(size=n)))) for j in range(3)}
    records = Records(n, amounts, {f"c{k}": (size, rng.integers(0, size, n)) for k, size in enumerate((2, 4))})
    runs = [measured(records, Account(1.0, 1e-6)) for _ in range(40)]

    def spread(group):
        found = [np.concatenate([part.ravel() for part in run.moments[group].values()]) for run in runs]
        return np.std(found, axis=0, ddof=1).mean()

    told = expected_error(n, 3, [2, 4])
    assert spread("means") == pytest.approx(told.group_mean, rel=0.2)
    assert spread("tables") == pytest.approx(told.cell, rel=0.2)
    assert 0.8 < spread("ranks") / told.rank_correlation < 1.5
    assert 0.8 < spread("values") / told.correlation < 2.2  # spreads are noisy, too
    below = [[one.ranks(np.array([100]))[0] for one in run.distributions.values()] for run in runs]
    assert np.std(below, axis=0, ddof=1).mean() == pytest.approx(told.distribution, rel=0.4)


@pytest.mark.parametrize("near", [{}, {"ranks": {(0, 1): 0.999}}])
def test_noisy_moments_are_made_those_of_some_table(near):
    scale = Scale(0.0, 9.0, 1.0)
    even = Distribution(scale, np.arange(11), np.full(10, 0.1))
    noisy = {(0, 1): 0.9, (0, 2): 0.8, (1, 2): -0.7}  # no three columns have these correlations
    moments_of = {"ranks": {pair: np.array([[moment]]) for pair, moment in noisy.items()}}
    found = consistent(
        Targets(100.0, dict.fromkeys("xyz", even), {}, moments_of, {"ranks": 0.01}, near=near), np.eye(3)
    )
    assert np.linalg.eigvalsh(found.target)[0] > -1e-8
    assert (found.weight > 0).sum() == 6
    assert np.abs(found.target - np.eye(3)).max() > 0.5


def test_distribution_of_a_skewed_amount_comes_back():
    values = np.exp(np.random.default_rng(3).normal(8, 1, 20_000))
    scale, account = Scale(0.0, 1e6, 1.0), Account(3.0, 1e-6)
    cells = scale.cells_of(values)
    found = amount_distribution(account, "x", scale, cells, count=20_000, rho=account.rho / 10)
    drawn = found.drawn(20_000, np.random.default_rng(4))
    grid = np.quantile(values, np.linspace(0, 1, 200))
    gap = np.searchsorted(drawn, grid) / 20_000 - np.searchsorted(np.sort(values), grid) / 20_000
    assert np.abs(gap).max() < 0.02
    assert found.ranks(cells).std() == pytest.approx(np.sqrt(1 / 12), rel=0.03)


def test_ends_and_zero_are_cells_of_their_own():
    scale = Scale(-1.0, 1.0)
    cells = scale.cells_of(np.array([-5.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, np.inf, np.nan]))
    assert cells[0] == cells[1] == 0
    assert cells[5] == cells[6] == scale.cells - 1
    assert len(set(cells[2:5].tolist())) == 3
    assert cells[7] == -1
    assert scale.values_at(cells[[1, 3, 5]] + 0.0).tolist() == [-1.0, 0.0, 1.0]
    assert on_simplex(np.array([3.0, -1.0, -np.inf])).tolist() == [1.0, 0.0, 0.0]
