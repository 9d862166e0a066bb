"""What every registered measure of both rooms promises; a new one is picked up, and needs its sanity lines below."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hostile import hostile_tables
from numpy.typing import NDArray
from samples import matrix

from microveil.core.table import Matrix
from microveil.errors import DataError
from microveil.measures.base import IF_THERE, Estimate, MeasureSpec, gauge
from microveil.measures.risk import MEASURES as RISKS
from microveil.measures.utility import MEASURES as UTILITIES

Array = NDArray[np.float64]
pytestmark = pytest.mark.usefixtures("few_descriptions")
ALL = {name: entry for name, entry in {**UTILITIES, **RISKS}.items() if entry.needs not in IF_THERE}

# What doing nothing gives; and where an independent shuffle of the columns must lie.
DOING_NOTHING = dict.fromkeys(UTILITIES, 0.0) | dict.fromkeys(RISKS, 1.0)
DOING_NOTHING |= {"vector_correlation": 1.0, "ssim": 1.0, "psnr": np.inf, "classifier_auc": 0.5}
DOING_NOTHING |= {"ci_overlap": 1.0, "selectivity": 1.0, "sensitive_correlation": 1.0, "dcr_ratio": 0.0}

KEPT_BY_A_SHUFFLE = {"mean_bias", "variance_bias", "skewness_bias", "kurtosis_bias", "ks", "marginal_distance"}
SHUFFLED = dict.fromkeys(KEPT_BY_A_SHUFFLE, (0.0, 0.0)) | {
    "pil": (0.38, 0.4),  # two groups of five are lost
    "pil7": (0.27, 2 / 7),
    "propensity_2": (0.3, 0.9),
    "propensity_3": (0.3, 0.9),
    "classifier_auc": (0.7, 1.0),
    "il1s": (0.3, 1.0),
    "correlation_bias": (0.5, 1.2),
    "rank_correlation_bias": (0.5, 1.2),
    "kendall_bias": (0.5, 1.2),
    "correlation_difference": (0.4, 1.1),
    "rank_correlation_difference": (0.4, 1.1),
    "norm_sum": (500.0, 2000.0),
    "norm_max_row": (10.0, 100.0),
    "norm_frobenius": (np.sqrt(0.8 * 2 * 1000), np.sqrt(1.2 * 2 * 1000)),  # differences of unit variance each
    "vector_correlation": (-0.15, 0.15),
    "kl_gaussian": (0.5, 20.0),
    "kl_ridge": (0.5, 20.0),
    "wasserstein_gaussian": (0.5, 5.0),
    "psnr": (5.0, 30.0),
    "ssim": (0.0, 0.95),
    "dbrl": (0.0, 0.05),
    "mahalanobis_linkage": (0.0, 0.05),
    "rank_linkage": (0.0, 0.05),
    "optimal_linkage": (0.0, 0.05),
    "subspace_linkage": (0.0, 0.07),
    "known_columns_linkage": (0.0, 0.05),
    "interval_disclosure": (0.1, 0.8),
    "interval_disclosure_own": (0.07, 0.2),
    "interval_disclosure_sd": (0.02, 0.3),
    "extreme_disclosure": (1.0, 1.0),  # a shuffle keeps every extreme
    "outlier_risk": (0.0, 0.25),  # one of the five at most
    "near_matches": (0.0, 0.1),
    "max_record_risk": (0.0, 0.999),  # luck gives anything
    "membership": (0.95, 1.0),  # and every value
    "singling_out": (0.0, 0.1),
    "linkability": (0.0, 0.05),
    "inference": (0.0, 0.1),
    "attribute_inference": (0.0, 0.1),
    "reconstruction": (0.0, 0.1),
    "spectral_filtering": (0.0, 0.05),
    "dcr_ratio": (0.8, 3.0),
    "exact_matches": (0.0, 0.0),
    "near_leakage": (0.0, 0.03),
    "ci_overlap": (0.0, 0.4),
    "regression_fit": (2.0, 50.0),
    "selectivity": (0.0, 0.15),
    "sensitive_correlation": (0.0, 0.3),
    "train_on_release": (0.1, 1.0),
}
# Luck alone gives nothing in a table of a few hundred records without equal values.
BY_NO_ACCIDENT = {"exact_matches", "near_leakage", "spectral_filtering"}
DESCRIPTIONS = {name for name, entry in ALL.items() if entry.better == "neither"}


def table(rows: int = 200) -> Array:
    rng = np.random.default_rng(1)
    return rng.lognormal(sigma=0.7, size=(rows, 5)) @ (np.eye(5) + 0.4) + [0, 5, -3, 100, 1]


def masked(data: Array) -> Array:
    return data + 0.4 * data.std(axis=0) * np.random.default_rng(2).normal(size=data.shape)


COSTLY = (
    "singling_out",
    "classifier_auc",
    "train_on_release",
    "reconstruction",
    "eigen_decay",
    "known_columns_linkage",
)
every = pytest.mark.parametrize(
    "entry",
    [pytest.param(entry, id=name, marks=pytest.mark.slow if name in COSTLY else ()) for name, entry in ALL.items()],
)


def found(entry: MeasureSpec, data: Array, released: Array, seed: int = 1):  # type: ignore[no-untyped-def]
    return entry(matrix(data), matrix(released), **entry.seeded(seed))


@every
def test_doing_nothing(entry: MeasureSpec) -> None:
    measure = found(entry, table(), table())
    if entry.id in DESCRIPTIONS:
        assert "released" in " ".join(measure.parts)
    elif entry.id == "classifier_auc":
        assert measure.value == pytest.approx(0.5, abs=0.06)
    else:
        assert measure.value == pytest.approx(DOING_NOTHING[entry.id], abs=1e-12)


@pytest.mark.parametrize("entry", [entry for entry in ALL.values() if entry.id not in DESCRIPTIONS], ids=lambda e: e.id)
def test_an_independent_shuffle(entry: MeasureSpec) -> None:
    rng = np.random.default_rng(3)
    shuffled = np.column_stack([rng.permutation(column) for column in table().T])
    low, high = SHUFFLED[entry.id]
    assert low <= found(entry, table(), shuffled).value <= high


@every
def test_the_figure_explains_itself(entry: MeasureSpec) -> None:
    measure = found(entry, table(), masked(table()))
    assert (measure.id, measure.meaning, measure.better, measure.range) == (
        entry.id,
        entry.summary,
        entry.better,
        entry.range,
    )
    assert entry.range[0] <= measure.low <= measure.value <= measure.high <= entry.range[1]
    assert entry.function.__doc__
    assert entry.__doc__ == entry.function.__doc__
    assert 20 < len(entry.summary) < 160
    told = json.loads(json.dumps(measure.to_dict(), allow_nan=False))
    assert {"id", "value", "low", "high", "chance", "better", "range", "meaning", "note", "parts"} == set(told)
    if entry.id in RISKS and entry.id not in ("interval_disclosure_sd", "dcr_ratio"):
        assert (
            0
            <= measure.chance - entry.range[0]
            < (0.7 if entry.id in ("extreme_disclosure", "max_record_risk") else 0.5)
        )
        assert measure.chance > 0 or entry.id in BY_NO_ACCIDENT


@every
def test_a_seed_repeats_it_and_nothing_is_changed(entry: MeasureSpec) -> None:
    data, released = table(), masked(table())
    before = data.copy(), released.copy()
    assert found(entry, data, released) == found(entry, data, released)
    assert (data == before[0]).all()
    assert (released == before[1]).all()


@every
def test_units_and_constant_columns_do_not_matter(entry: MeasureSpec) -> None:
    data, released = table(), masked(table())
    plain = found(entry, data, released)
    units = np.array([2.0**-20, 1.0, 2.0**30, 4.0, 0.5])
    assert found(entry, data * units, released * units).value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)
    if entry.id in ("between_correlation", "within_correlation"):
        return  # the papers' means over columns count every column
    constant = np.full(len(data), 7.0)
    wider = found(entry, np.column_stack([data, constant]), np.column_stack([released, constant]))
    assert wider.value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)


@every
def test_missing_cells_do_no_harm_and_are_no_hits(entry: MeasureSpec) -> None:
    rng = np.random.default_rng(4)
    holes = np.where(rng.random((200, 5)) < 0.1, np.nan, table())
    released = np.where(np.isnan(holes), np.nan, masked(table()))
    for pair in ((holes, released), (holes, masked(table())), (table(), released)):
        measure = found(entry, *pair)
        assert np.isfinite(measure.value), "a figure for cells that are there"
        assert entry.range[0] <= measure.value <= entry.range[1]
    if entry.id in RISKS:
        nothing = np.inf if entry.id == "dcr_ratio" else entry.range[0]  # no record is near where there is none
        assert found(entry, table(), np.full((200, 5), np.nan)).value == nothing


@every
def test_three_records_are_measured_or_refused(entry: MeasureSpec) -> None:
    data = table(3)
    for released in (data, masked(data), data[::-1], np.full_like(data, np.nan), np.ones_like(data)):
        try:
            measure = found(entry, data, released)
        except DataError:
            assert entry.id in ("eigen_decay", "ci_overlap", "regression_fit", "train_on_release")
        else:
            assert entry.range[0] <= measure.low <= measure.value <= measure.high <= entry.range[1]


HOSTILE = hostile_tables(np.random.default_rng(8).lognormal(size=(60, 4)) @ (np.eye(4) + 0.4))


@pytest.mark.quick("mixed units-*")
@every
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_tables_are_measured_or_refused(entry: MeasureSpec, kind: str) -> None:
    data = HOSTILE[kind]
    shuffled = np.column_stack([np.random.default_rng(9).permutation(column) for column in data.T])
    for released in (data, shuffled, np.zeros_like(data)):
        try:
            measure = found(entry, data, released)
        except DataError:
            # These need columns on their own, or records to learn from.
            assert entry.id in ("eigen_decay", "ci_overlap", "regression_fit", "train_on_release")
        else:
            assert entry.range[0] <= measure.low <= measure.value <= measure.high <= entry.range[1]


# These need no pairs, but where there are any they learn from, or are tested on, a record and its release together.
UNPAIRED = [
    entry
    for entry in ALL.values()
    if not entry.paired and entry.id not in ("max_record_risk", "classifier_auc", "train_on_release")
]


@pytest.mark.parametrize("entry", UNPAIRED, ids=lambda e: e.id)
def test_the_order_of_the_released_records_does_not_matter(entry: MeasureSpec) -> None:
    data, released = table(), masked(table())
    order = np.random.default_rng(6).permutation(len(data))
    plain, other = found(entry, data, released), found(entry, data, released[order])
    assert other.value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)


@every
def test_files_that_do_not_match_are_refused(entry: MeasureSpec) -> None:
    data = table()
    with pytest.raises(DataError, match="columns"):
        found(entry, data, data[:, :3])
    with pytest.raises(DataError, match="nothing to measure"):
        found(entry, data[:0], data[:0])
    broken = data.copy()
    broken[3, 2] = np.inf
    with pytest.raises(DataError, match=r"column 2 .* released .* infinite"):
        found(entry, data, broken)
    if entry.paired:
        with pytest.raises(DataError, match="one by one"):
            found(entry, data, data[:100])
    else:
        assert np.isfinite(found(entry, data, masked(data)[:150]).value)


def test_a_table_without_variation_is_refused() -> None:
    with pytest.raises(DataError, match="constant"):
        UTILITIES["pil"](matrix(np.ones((5, 2))), matrix(np.ones((5, 2))))


def test_ids_are_the_names_of_the_functions_and_of_one_room_only() -> None:
    assert not UTILITIES.keys() & RISKS.keys()
    for name, entry in ALL.items():
        assert name == entry.id == entry.function.__name__


def test_a_new_measure_is_one_function() -> None:
    @gauge("share of cells that are negative in the release", better="low", range=(0, 1), cost="fast")
    def negative(original: Matrix, released: Matrix) -> Estimate:
        """Cells below zero."""
        return Estimate(float(np.mean([column < 0 for column in released.columns])))

    measure = negative(matrix(table()), matrix(-np.abs(table())))
    assert (measure.id, measure.value, measure.low, measure.high, measure.utility) == ("negative", 1, 1, 1, -1)
    assert not negative.takes("seed")
    assert negative.seeded(5) == {}
    assert UTILITIES["vector_correlation"](matrix(table()), matrix(table())).utility == pytest.approx(1)


def test_infinity_has_a_word_in_json() -> None:
    told = UTILITIES["psnr"](matrix(table()), matrix(table())).to_dict()
    assert told["value"] == "Infinity"
    assert told["range"] == [0.0, "Infinity"]
    assert float(told["value"]) == np.inf
