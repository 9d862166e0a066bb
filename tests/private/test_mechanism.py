"""What one record changes, and what the ledger says of it."""

import math

import numpy as np
import pytest

from microveil.private import moments
from microveil.private.budget import sensitivities
from microveil.private.distributions import Distribution, amount_distribution, on_simplex
from microveil.private.mechanism import Account, epsilon_of, largest_rho
from microveil.private.moments import (
    CUT_OFF,
    MOST_CUT_OFF,
    UNIT,
    Block,
    MomentGroup,
    level_bound,
    level_features,
    values_cut_off,
    waves,
)
from microveil.private.scale import Scale
from microveil.private.targets import Records, groups

LEVELS = (2, 3, 7)


def _records(rng, rows):
    """Records all over, and adversarial ones: at the ends, in the middle, missing, of no level."""
    scale = Scale(-50.0, 100.0)
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
    for group in groups(records, known, list(told), cut_off):
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
    for group in groups(records, known, list(told), MOST_CUT_OFF):
        one = MomentGroup(group.name, [(_first(a), _first(b)) for a, b in group.pairs])
        assert 0.99 * group.sensitivity <= np.linalg.norm(one.exact()) <= group.sensitivity


def _first(block):
    return Block(block.column, block.features[:1], block.bound)


def test_sums_of_neighbouring_tables_differ_by_the_products_of_one_record():
    rng = np.random.default_rng(2)
    one, other = waves(rng.random(50), 1)[:, None], level_features(3)[rng.integers(0, 3, 50)]
    whole = MomentGroup("means", [(Block(0, one, moments.WAVE_BOUND**2), Block(1, other, level_bound(3)))])
    less = MomentGroup("means", [(Block(0, one[1:], moments.WAVE_BOUND**2), Block(1, other[1:], level_bound(3)))])
    assert (whole.exact() - less.exact()).tolist() == (one[0] * other[0]).astype(int).tolist()
    assert np.linalg.norm(whole.exact() - less.exact()) <= whole.sensitivity


@pytest.mark.parametrize("cell", [0.0, 1.0, np.nan, 0.5, np.inf, -np.inf, 1e150])
def test_features_are_whole_and_bounded(cell):
    cells = np.array([cell])
    for order in (1, 2, 3):
        found = waves(np.clip(cells, 0, 1), order)
        assert found == np.round(found)
        assert np.abs(found) <= moments.WAVE_BOUND
    assert np.abs(values_cut_off(cells, 0.3, 1e-9)) <= moments.value_bound(CUT_OFF)


def test_loss_is_turned_into_epsilon_and_back():
    rho = largest_rho(1.0, 1e-6)
    assert epsilon_of(rho, 1e-6) <= 1.0
    assert epsilon_of(rho * 1.001, 1e-6) > 1.0
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
