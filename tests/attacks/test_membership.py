"""Was she a patient of that clinic?

The intruder has a record, from a register or a letter, and the released file. Nobody can be found in a file they were
never in; but to be in the file of a clinic is the secret itself. So the intruder looks how near the release comes to
the record: by the nearest released record, or value by value, because a method that moves each value only a little and
deals it out to somebody else hides who has it, but not that somebody has. `membership` must show it in every default
assessment, with a holdout and without, and must be silent where there is nothing to be told.
"""

from __future__ import annotations

import membership as attack
import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import microveil as mv
from microveil.errors import DataError
from microveil.measures.base import Measure

Array = NDArray[np.float64]


def people(seed: int, rows: int = 400, columns: int = 8) -> Array:
    """Correlated lognormal amounts."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 1))
    return np.exp(0.6 * common + 0.6 * rng.normal(size=(rows, columns)))


def halves(data: Array, seed: int) -> tuple[Array, Array]:
    return attack.halves(data, np.random.default_rng(seed))


def moved_and_dealt_out(data: Array, seed: int) -> Array:
    """Every value moved within a tenth of the gap to its neighbours, and given to another record."""
    rng = np.random.default_rng(seed)
    columns = []
    for column in data.T:
        ordered = np.sort(column)
        gap = np.minimum(np.diff(ordered, prepend=-np.inf), np.diff(ordered, append=np.inf))
        columns.append(rng.permutation(ordered + 0.1 * gap * rng.uniform(-1, 1, ordered.size)))
    return np.column_stack(columns)


def noisy(data: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return data + 0.3 * data.std(axis=0) * rng.normal(size=data.shape)


def measured(original: Array, released: Array, holdout: Array | None = None) -> Measure:
    found = mv.assess(original, released, holdout=holdout, measures=["membership"], seed=1, sanity=False)
    return found["membership"]


@pytest.mark.parametrize("with_holdout", [True, False])
def test_values_that_hardly_moved_tell_members(with_holdout: bool) -> None:
    members, others = halves(people(1, 800), 1)
    released = moved_and_dealt_out(members, 2)
    found = measured(members, released, others if with_holdout else None)
    assert "gaps" in found.note
    assert found.low > found.chance
    assert found.parts["gaps"] == pytest.approx(attack.untrained_gap_auc(members, others, released).auc, abs=0.04)
    assert found.parts["gaps, found at 1 % false alarms"] > 0.2
    assert found.parts["nearest"] < 0.6  # nobody's own record is there


def test_added_noise_is_seen_without_a_holdout_too() -> None:
    members, others = halves(people(3, 800), 1)
    released = np.random.default_rng(4).permutation(noisy(members, 5))
    known, alone = measured(members, released, others), measured(members, released)
    assert known.parts["nearest"] == pytest.approx(attack.nearest_auc(members, others, released).auc)
    assert known.low > known.chance
    assert "margin" in alone.note
    assert alone.low > alone.chance
    assert alone.value <= known.high


def releases(protect: attack.Protect, data: Array) -> tuple[attack.Attacked, list[attack.Attacked]]:
    """One, and four to learn from."""
    target, *shadows = (attack.attacked(protect, data, seed) for seed in (1, 1_100, 1_101, 1_102, 1_103))
    return target, shadows


def test_an_intruder_who_has_learnt_does_better_than_one_who_has_not() -> None:
    data = people(6, 600)
    members, others = halves(data, 1)
    untrained = attack.untrained_gap_auc(members, others, moved_and_dealt_out(members, 1))
    trained = attack.trained_gap_auc(*releases(moved_and_dealt_out, data))
    assert untrained.auc > 0.75
    assert trained.auc > untrained.auc - 0.02
    assert trained.found > 0.1
    nothing = attack.trained_gap_auc(*releases(lambda inside, seed: people(seed, len(inside)), data))
    assert nothing.auc == pytest.approx(0.5, abs=4 * np.sqrt(1 / (6 * 300)))


@pytest.mark.parametrize("kind", ["smooth", "whole", "heaped", "tied"])
@pytest.mark.parametrize("with_holdout", [True, False])
def test_no_alarm_for_another_sample_of_the_population(kind: str, with_holdout: bool) -> None:
    make = {
        "smooth": lambda seed: people(seed, 250),
        "whole": lambda seed: np.round(20 * people(seed, 250)),
        "heaped": lambda seed: np.round(2 * people(seed, 250)) * 50,
        "tied": lambda seed: np.random.default_rng(seed).integers(0, 3, (250, 5)).astype(float),
    }[kind]
    found = [measured(make(seed), make(100 + seed), make(200 + seed) if with_holdout else None) for seed in range(8)]
    assert sum(one.low > one.chance for one in found) == 0
    assert np.mean([one.value - one.chance for one in found]) == pytest.approx(0, abs=0.04)


@pytest.mark.parametrize("method", ["ipso", "pca"])
def test_no_alarm_for_drawn_or_swapped_components(method: str) -> None:
    members, others = halves(people(7, 600), 1)
    for seed in range(3):
        released = mv.protect(members, method, seed=seed).data
        for holdout in (others, None):
            found = measured(members, released, holdout)
            assert found.low <= found.chance


def test_a_copy_is_told_from_everybody_and_ties_count_one_half() -> None:
    data = people(8, 200)
    assert measured(data, data).value == 1
    assert measured(data, data, people(9, 200)).value == 1
    few = np.random.default_rng(1).integers(0, 2, (300, 3)).astype(float)
    assert measured(few, few).value < 0.52  # everybody has a twin


def test_missing_cells_and_empty_records_tell_nothing() -> None:
    data = people(10, 200)
    data[::7, 2] = np.nan
    data[3] = np.nan
    assert measured(data, data).value > 0.99
    assert measured(data, np.full_like(data, 5.0)).value == 0.5
    assert "too few" in measured(data[:2], data[:2]).note


def test_the_classifier_tells_the_release_from_the_holdout() -> None:
    members, others = halves(people(11, 800), 1)
    found = mv.assess(members, others, holdout=members, measures=["classifier_auc"], seed=1, sanity=False)
    same = mv.assess(members, others, measures=["classifier_auc"], seed=1, sanity=False)
    assert found["classifier_auc"] == same["classifier_auc"]
    strange = mv.assess(members, members, holdout=3 * others, measures=["classifier_auc"], seed=1, sanity=False)
    assert strange["classifier_auc"].value > 0.8


def test_a_holdout_must_have_the_columns() -> None:
    data = people(12, 50)
    with pytest.raises(DataError, match="8 and 5 columns"):
        mv.assess(data, data, holdout=data[:, :5], measures=["membership"])


@pytest.mark.parametrize("name", ["eia", "census_12"])
def test_without_a_holdout_the_figure_is_near_that_with_one_on_reference_data(name: str) -> None:
    data = getattr(reference, name)()[1]
    members, others = halves(data, 1)
    released = moved_and_dealt_out(members, 2)
    known, alone = measured(members, released, others), measured(members, released)
    assert known.parts["gaps"] == pytest.approx(alone.parts["gaps"], abs=0.06)
    assert alone.low > alone.chance


def test_sums_that_are_kept_tell_members_of_a_wide_file() -> None:
    """Nobody's values are there, and none is near: but a few records have a part in every covariance."""
    rng = np.random.default_rng(13)
    data = rng.normal(size=(600, 30)) @ rng.normal(size=(30, 30))
    members, others = halves(data, 1)
    few, strangers = members[:100], others
    found = measured(few, mv.protect(few, "ipso", seed=1).data, strangers)
    assert found.parts["moments"] > 0.75
    assert max(found.parts[way] for way in ("nearest", "density", "margin", "gaps")) < 0.65
    assert "best by moments" in found.note
    assert found.low > found.chance
    alone = measured(few, mv.protect(members[100:200], "ipso", seed=1).data, strangers)
    assert alone.low <= alone.chance
    assert alone.parts["moments"] == pytest.approx(0.5, abs=0.1)
