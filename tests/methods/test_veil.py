"""veil end to end: what analysts compute comes back, no record does, and odd tables come through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from gaps import patterns
from scipy.stats import ks_2samp
from veil_tables import NAMES, ROWS, attacks, correlation_error, factors, firms, harmless, pair, released

import microveil as mv
from microveil.measures import risk, utility


def given_away(before: Any, after: Any, group: int = 5) -> int:
    """Extremes that are released, though fewer than `group` records share them."""
    count = 0
    for old, new in zip(np.asarray(before, dtype=float).T, np.asarray(after, dtype=float).T, strict=True):
        ends = [end for end in (old.min(), old.max()) if np.count_nonzero(old == end) < group]
        count += sum(bool((new == end).any()) for end in ends)
    return count


# --- What comes back, and what does not


@pytest.mark.quick("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_correlations_and_distributions_come_back(seed: int) -> None:
    before, release = firms(), released(seed)
    pearson, spearman = correlation_error(before, release.data)
    assert pearson <= 0.05
    assert spearman <= 0.05
    distances = [ks_2samp(before[name], release.data[name], method="asymp").statistic for name in NAMES]
    assert np.mean(distances) <= 0.03
    assert release.kept["rank correlation"] == pytest.approx(spearman, abs=1e-9)
    assert release.kept["distribution"] == pytest.approx(max(distances), abs=1e-9)
    mean = ((release.data.mean() - before.mean()).abs() / before.std(ddof=0)).max()
    assert release.kept["mean"] == pytest.approx(mean, rel=1e-6)
    assert mean <= 0.005


@pytest.mark.quick("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_attack_finds_the_records(seed: int) -> None:
    for found in attacks(firms(), released(seed).data).values():
        assert harmless(found), found.id


def test_the_attacks_have_power() -> None:
    """They find everybody in the file itself, and most after swaps of neighbours: else the test above says nothing."""
    for found in attacks(firms(), firms()).values():
        assert found.value > 0.99
    near = mv.protect(firms(), "rank_swap", rank_window=0.02, seed=1).data
    assert attacks(firms(), near)["rank_linkage"].value > 0.5


@pytest.mark.quick("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_tells_the_release_from_the_original(seed: int) -> None:
    both = pair(firms(), released(seed).data)
    assert utility.MEASURES["propensity_2"](*both, seed=1).value <= 0.02
    assert utility.MEASURES["propensity_3"](*both, seed=1).value <= 0.05
    assert utility.MEASURES["pil"](*both).value <= 0.1


@pytest.mark.quick("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_values_are_such_as_the_columns_have(seed: int) -> None:
    before, after = firms(), released(seed).data
    for name in NAMES:
        assert after[name].min() >= before[name].min()
        assert after[name].max() <= before[name].max()
    assert (after[["staff", "member"]] == after[["staff", "member"]].round()).all(axis=None)
    assert (after["margin"] == after["margin"].round(1)).all()
    assert (after["assets"] % 100 == 0).all()
    assert (after["member"].sum(), (after["export"] == 0).sum()) == (
        before["member"].sum(),
        (before["export"] == 0).sum(),
    )
    assert list(after.dtypes) == list(before.dtypes)
    assert released(seed).warnings == []


@pytest.mark.quick("1")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_extreme_is_given_away(seed: int) -> None:
    assert given_away(firms(), released(seed).data) == 0
    own = [name for name in NAMES if name != "member"]
    assert (released(seed).data[own].max() < firms()[own].max()).all()
    assert risk.MEASURES["extreme_disclosure"](*pair(firms(), firms())).value == 1
    assert risk.MEASURES["extreme_disclosure"](*pair(firms(), released(seed).data)).value < 0.5


def test_single_values_do_not_come_back() -> None:
    before, after = firms(), released().data
    for name in ("sales", "result", "energy"):
        assert not after[name].isin(before[name]).any()


# --- Sums that hold in most rows


def accounts(gross: int, most: bool = False, rows: int = 1000) -> pd.DataFrame:
    """Three parts and a total that is off by one in 5 % of the rows (or in most), and by a lot in a few."""
    rng = np.random.default_rng(3)
    parts = np.round(1000 * factors(rows, 5, seed=3))
    total = parts[:, :3].sum(axis=1)
    off = rng.integers(-1, 2, rows) if most else np.where(rng.random(rows) < 0.05, rng.choice([-1, 1], rows), 0)
    bad = rng.choice(rows, gross, replace=False)
    off[bad] = np.round(total[bad] * rng.uniform(-0.5, 10, gross))
    return pd.DataFrame(np.column_stack([parts, total + off]), columns=[*"abcde", "total"])


def holds(data: pd.DataFrame) -> float:
    return float((data["total"] == data["a"] + data["b"] + data["c"]).mean())


@pytest.mark.quick("10")
@pytest.mark.parametrize("gross", [0, 10])
def test_a_total_that_holds_in_most_rows_holds_in_as_many(gross: int) -> None:
    before = accounts(gross)
    release = mv.protect(before, seed=1)
    assert 0.9 < holds(before) < 0.97
    assert holds(release.data) == pytest.approx(holds(before), abs=0.02)
    assert "holds in most rows, before and after: total = a + b + c" in release.warnings
    assert release.rules == []  # it is no rule of every row
    both = pair(before, release.data)
    assert utility.MEASURES["propensity_3"](*both, seed=1).value < 0.1
    assert max(correlation_error(before, release.data)) <= 0.05
    assert given_away(before, release.data) == 0
    for found in attacks(before, release.data).values():
        assert harmless(found)


def test_rounding_differences_in_most_rows_are_kept_too() -> None:
    before = accounts(0, most=True)
    after = mv.protect(before, seed=1).data
    assert holds(before) < 0.4
    assert holds(after) == pytest.approx(holds(before), abs=0.03)
    gap = after["total"] - after["a"] - after["b"] - after["c"]
    assert gap.abs().max() <= 1
    assert utility.MEASURES["propensity_3"](*pair(before, after), seed=1).value < 0.1


@pytest.mark.quick("0.01")
@pytest.mark.parametrize("trifle", [1e-2, 1e-4])
def test_a_column_that_follows_from_others_but_for_a_trifle_still_does(trifle: float) -> None:
    """Mapped one by one, the columns had a logistic regression tell the files apart at once (PS 0.7)."""
    before = pd.DataFrame(factors(1000, 6), columns=list("abcdef"))
    cost = 0.3 * before["a"] + 0.7 * before["b"]
    before["cost"] = cost + trifle * cost.std() * np.random.default_rng(4).standard_normal(1000)
    after = mv.protect(before, seed=1).data
    assert utility.MEASURES["propensity_3"](*pair(before, after), seed=1).value < 0.1
    # Windows of both are drawn by themselves: in the tails, that costs some of what ties them.
    assert max(correlation_error(before, after)) <= 0.1


def test_a_total_of_some_strata_is_told_of_by_its_right_name() -> None:
    before = accounts(0)
    before.insert(0, "unit", np.where(np.arange(1000) < 500, 1.0, np.arange(1000)))  # constant in a stratum
    before["town"] = (np.arange(1000) >= 500).astype(int)
    release = mv.protect(before, strata="town", seed=1)
    said = [warning for warning in release.warnings if warning.startswith("holds in most rows")]
    assert said == ["holds in most rows, before and after: total = a + b + c"]
    assert holds(release.data) == pytest.approx(holds(before), abs=0.02)


def test_exact_sums_are_rules_and_hold_in_every_row() -> None:
    before = firms()
    before["total"] = before["staff"] + before["assets"]
    release = mv.protect(before, seed=1)
    assert release.rules == ["total = staff + assets"]
    assert (release.data["total"] == release.data["staff"] + release.data["assets"]).all()


# --- Roles


def test_the_relation_to_public_columns_is_kept() -> None:
    before = firms()
    before["area"] = before["sales"] ** 0.5 * np.random.default_rng(1).uniform(0.7, 1.3, ROWS)
    before["region"] = np.array(["north", "south", "west"])[(before["staff"].rank() % 3).astype(int)]
    release = mv.protect(before, public=["area", "region"], confidential=NAMES, seed=1)
    after = release.data
    assert (after[["area", "region"]] == before[["area", "region"]]).all(axis=None)
    columns = [*NAMES, "area"]
    assert max(correlation_error(before[columns], after[columns])) <= 0.05
    for name in ("sales", "staff", "energy"):
        means = [side.groupby("region")[name].mean() for side in (before, after)]
        assert ((means[1] - means[0]).abs() <= 0.05 * before[name].std()).all()
    # Whoever knows the public column and guesses by it is not helped; the confidential ones alone link nobody.
    for found in attacks(before[NAMES], after[NAMES]).values():
        assert found.value <= 0.02 or harmless(found)


def test_strata_keep_what_is_theirs() -> None:
    before = firms(900)
    before["branch"] = np.arange(900) % 3
    before.loc[before["branch"] == 1, NAMES[:6]] *= [3, 3, 3, 1, 3, 3]
    release = mv.protect(before, strata="branch", confidential=NAMES, seed=1)
    for branch, rows in before.groupby("branch"):
        new = release.data.loc[rows.index]
        assert (new["branch"] == branch).all()
        assert ((new[NAMES].mean() - rows[NAMES].mean()).abs() <= 0.01 * rows[NAMES].std()).all()
        assert max(correlation_error(rows[NAMES], new[NAMES])) <= 0.05
        assert given_away(rows[NAMES], new[NAMES]) == 0


def test_a_third_of_the_cells_may_be_missing() -> None:
    rng, whole = np.random.default_rng(9), firms()
    holes = rng.random(whole.shape) < 0.3
    # Not at random: large firms do not tell their energy.
    holes[:, 7] |= (whole["sales"] > whole["sales"].median()).to_numpy() & (rng.random(ROWS) < 0.5)
    before = whole.mask(holes)
    after = mv.protect(before, seed=1).data
    assert patterns(after) == patterns(before)
    assert (after.isna() == before.isna()).mean(axis=None) < 0.62, "by chance .58"
    # A few large values decide about these, and each pair of columns has other rows: hit on average, not one by one.
    pearson = (after.corr() - before.corr()).abs().to_numpy()[np.triu_indices(len(NAMES), 1)]
    assert pearson.mean() <= 0.05
    assert pearson.max() <= 0.25
    more = [after, *(mv.protect(before, seed=seed).data for seed in range(2, 6))]  # a single draw may be .07 off
    worst = [(one.corr("spearman") - before.corr("spearman")).abs().max(axis=None) for one in more]
    assert np.mean(worst) <= 0.05
    relation = [
        np.array([[side[a].corr(side[b].notna().astype(float)) for a in NAMES if a != b] for b in NAMES])
        for side in (before, after)
    ]
    assert np.abs(relation[0]).max() > 0.15
    assert np.abs(relation[1] - relation[0]).max() <= 0.05
    for name in NAMES:
        assert ks_2samp(before[name].dropna(), after[name].dropna(), method="asymp").statistic <= 0.08
    # The pattern of the holes links nobody: it went to another row.
    linked = [attacks(before, release) for release in more]
    for attack in linked[0]:
        assert np.mean([found[attack].value - found[attack].chance for found in linked]) <= 0.002, attack


def test_a_column_with_hardly_any_answers_tells_none_of_them() -> None:
    before = firms()
    before["export"] = before["export"].where(np.arange(ROWS) < 7) + 1
    after = mv.protect(before, seed=1).data["export"]
    assert after.notna().sum() == 7
    assert not after.dropna().isin(before["export"]).any()
    assert after.mean() == pytest.approx(before["export"].mean(), rel=1e-9)


def test_weighted_moments_are_near() -> None:
    before = firms()
    weights = np.random.default_rng(3).choice([1.0, 2, 5, 20], ROWS) * np.where(before["sales"] > 1000, 0.5, 2)
    release = mv.protect(before.assign(weight=weights), weight="weight", seed=1)
    after = release.data[NAMES]
    means = [np.average(side, axis=0, weights=weights) for side in (before, after)]
    sd = np.sqrt(np.average(np.square(before - means[0]), axis=0, weights=weights))
    assert (np.abs(means[1] - means[0]) <= 0.02 * sd).all()
    covariance = [np.cov(side.T, aweights=weights) for side in (before, after)]
    correlation = [c / np.sqrt(np.outer(np.diag(c), np.diag(c))) for c in covariance]
    assert np.abs(correlation[1] - correlation[0]).max() <= 0.03
    assert (release.data["weight"] == weights).all()
