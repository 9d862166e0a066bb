"""What every measure of labels promises; a new one is picked up, and needs its lines below if it is of another kind."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.core.table import Matrix
from microveil.errors import DataError
from microveil.measures.base import IF_THERE, MeasureSpec
from microveil.measures.labels import LabelPair
from microveil.measures.risk import MEASURES as RISKS
from microveil.measures.utility import MEASURES as UTILITIES

Codes = NDArray[np.int64]
ALL = {name: entry for name, entry in {**RISKS, **UTILITIES}.items() if entry.needs in IF_THERE or entry.needs == "any"}
COSTLY = ("classifier_auc", "train_on_release")
every = pytest.mark.parametrize(
    "entry",
    [pytest.param(entry, id=name, marks=pytest.mark.slow if name in COSTLY else ()) for name, entry in ALL.items()],
)
NOTHING_LOST = {"classifier_auc": 0.5} | dict.fromkeys(
    ("two_way_tables", "cramers_v_change", "group_means", "label_regressions", "train_on_release"), 0.0
)
ALL_TOLD = dict.fromkeys(("clear_uniques", "mixed_linkage", "membership"), 1.0)


def records(rows: int = 240, seed: int = 1) -> tuple[list[NDArray[np.float64]], Codes]:
    """Two columns of numbers and four of labels that hang together, with some cells missing."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    numbers = [group + rng.normal(size=rows), rng.lognormal(size=rows) * (1 + group)]
    codes = np.column_stack([group, (group + (rng.random(rows) < 0.3)) % 3, rng.integers(0, 5, rows), group // 2])
    codes[rng.random(codes.shape) < 0.03] = -1
    return numbers, codes


OF_SENSITIVE = ("l_diversity", "t_closeness")


def pair(old: Codes, new: Codes, entry: MeasureSpec | None = None) -> LabelPair:
    return LabelPair(
        names=("a", "b", "c", "d"),
        kinds=("category", "category", "ordered", "category"),
        sizes=(3, 3, 5, 2),
        original=old,
        released=new,
        in_clear=(True, False, False, True),
        keys=(0, 1, 2, 3),
        sensitive=(2,) if entry is not None and entry.id in OF_SENSITIVE else None,
    )


def found(entry: MeasureSpec, new: Codes | None = None, numbers: list[NDArray[np.float64]] | None = None):  # type: ignore[no-untyped-def]
    columns, codes = records()
    after = columns if numbers is None else numbers
    labels = pair(codes, codes if new is None else new, entry)
    return entry(Matrix(columns), Matrix(after), labels=labels, **entry.seeded(1))


def shuffled(entry: MeasureSpec):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(2)
    columns, codes = records()
    mixed = np.column_stack([codes[:, 0], *(rng.permutation(column) for column in codes.T[1:3]), codes[:, 3]])
    return found(entry, mixed, [rng.permutation(column) for column in columns])


@every
def test_doing_nothing(entry: MeasureSpec) -> None:
    value = found(entry).value
    if entry.id in NOTHING_LOST:
        assert value == pytest.approx(NOTHING_LOST[entry.id], abs=0.06 if entry.id == "classifier_auc" else 1e-12)
    elif entry.id == "clear_uniques":
        assert value < 0.05, "twelve combinations of 240 records"
    elif entry.id in ALL_TOLD:
        assert value == pytest.approx(ALL_TOLD[entry.id], abs=0.01)


@every
def test_a_shuffle_loses_what_labels_tell(entry: MeasureSpec) -> None:
    before, after = found(entry), shuffled(entry)
    if entry.kind == "utility" and entry.better == "low":
        assert after.value > before.value + 0.05
    elif entry.id == "mixed_linkage":
        assert after.value < 0.15


@every
def test_the_figure_explains_itself_and_a_seed_repeats_it(entry: MeasureSpec) -> None:
    measure = shuffled(entry)
    assert (measure.id, measure.meaning, measure.range) == (entry.id, entry.summary, entry.range)
    assert entry.range[0] <= measure.low <= measure.value <= measure.high <= entry.range[1]
    assert 20 < len(entry.summary) < 160
    assert entry.function.__doc__
    json.dumps(measure.to_dict(), allow_nan=False)
    assert shuffled(entry) == measure


@every
def test_nothing_to_measure_is_refused(entry: MeasureSpec) -> None:
    columns, codes = records()
    with pytest.raises(DataError):
        entry(Matrix([]), Matrix([]), **({"labels": None} | entry.seeded(1)))
    if entry.paired:
        with pytest.raises(DataError, match="one by one"):
            entry(Matrix(columns), Matrix([c[:99] for c in columns]), labels=pair(codes, codes[:99]), **entry.seeded(1))


@every
@pytest.mark.parametrize("case", ["three records", "one label", "all missing", "other labels", "no numbers"])
def test_odd_files_are_measured_or_refused(entry: MeasureSpec, case: str) -> None:
    columns, codes = records()
    new = codes.copy()
    if case == "three records":
        columns, codes, new = [c[:3] for c in columns], codes[:3], new[:3]
    elif case == "one label":
        codes, new = codes * 0, new * 0
    elif case == "all missing":
        new = new * 0 - 1
    elif case == "other labels":
        codes, new = codes * 0, new * 0 + 1
    elif case == "no numbers":
        columns = []
    try:
        measure = entry(Matrix(columns), Matrix(columns), labels=pair(codes, new, entry), **entry.seeded(1))
    except DataError:
        assert case in ("three records", "one label", "other labels", "no numbers")
    else:
        assert entry.range[0] <= measure.low <= measure.value <= measure.high <= entry.range[1]


@pytest.mark.parametrize("name", ["two_way_tables", "cramers_v_change", "group_means", "label_regressions"])
def test_two_samples_of_one_population_are_about_as_far_apart_as_chance_says(name: str) -> None:
    ratios = []
    for seed in range(12):
        (one, first), (other, second) = records(1_000, seed), records(1_000, 100 + seed)
        measure = UTILITIES[name](Matrix(one), Matrix(other), labels=pair(first, second))
        ratios.append(measure.value / measure.chance)
    # The largest of many is above the mean of one; regressions are a mean themselves.
    low, high = (0.8, 1.2) if name == "label_regressions" else (0.6, 3.0)
    assert low < np.mean(ratios) < high


def test_total_variation_and_cramers_v_as_in_a_textbook() -> None:
    old = np.array([[0, 0]] * 30 + [[0, 1]] * 20 + [[1, 0]] * 10 + [[1, 1]] * 40)
    new = np.array([[0, 0]] * 25 + [[0, 1]] * 25 + [[1, 0]] * 25 + [[1, 1]] * 25)
    labels = LabelPair(("a", "b"), ("category",) * 2, (2, 2), old, new, (False,) * 2, (0, 1))
    nothing = Matrix([])
    assert UTILITIES["two_way_tables"](nothing, nothing, labels=labels).value == pytest.approx(0.2)
    # chi-square = 100 (30*40 - 20*10)^2 / (50*50*40*60); V is its root over 10
    assert UTILITIES["cramers_v_change"](nothing, nothing, labels=labels).value == pytest.approx(np.sqrt(1 / 6))


def test_weights_count() -> None:
    old = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10)
    new = old.copy()
    new[0] = [1, 1]
    heavy = np.ones(40)
    heavy[0] = 20
    plain = LabelPair(("a", "b"), ("category",) * 2, (2, 2), old, new, (False,) * 2, (0, 1))
    weighted = LabelPair(
        *(plain.names, plain.kinds, plain.sizes, old, new, plain.in_clear, plain.keys),
        weights=heavy,
        released_weights=heavy,
    )
    figure = UTILITIES["two_way_tables"]
    assert figure(Matrix([]), Matrix([]), labels=plain).value == pytest.approx(1 / 40)
    assert figure(Matrix([]), Matrix([]), labels=weighted).value == pytest.approx(20 / 59)


def test_regressions_count_weights_as_records() -> None:
    rng = np.random.default_rng(3)
    codes, weights = rng.choice(3, 300, p=[0.6, 0.3, 0.1]), rng.integers(1, 4, 300)
    numbers = rng.normal(size=(300, 2)) + (codes == 0)[:, None] * weights[:, None]
    after = np.column_stack([rng.permutation(numbers[:, 0]), numbers[:, 1]])

    def measured(rows: NDArray[np.intp], heavy: NDArray[np.float64] | None) -> float:
        label = codes[rows, None]
        labels = LabelPair(
            ("l",), ("category",), (3,), label, label, (False,), (0,), weights=heavy, released_weights=heavy
        )
        sides = (Matrix(list(table[rows].T)) for table in (numbers, after))
        found: float = UTILITIES["label_regressions"](*sides, labels=labels).value
        return found

    every = np.arange(300)
    weighted, counted = measured(every, weights.astype(float)), measured(np.repeat(every, weights), None)
    assert measured(every, None) != pytest.approx(weighted, rel=0.01)
    # Nearly the same coefficients (numbers are in standard deviations that nobody weights), and exactly so if these are
    # the same; standard errors are those of so many records of equal weight.
    alike = weights.sum() ** 2 / np.square(weights).sum()
    assert weighted / counted == pytest.approx(np.sqrt((alike - 4) / (weights.sum() - 4)), rel=1e-3)
