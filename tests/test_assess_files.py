"""`assess_files`: the same figures as in memory, from files that are passed by piece by piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.assess import assess_files
from microveil.assessment import figures, measuring, pairing
from microveil.assessment.figures import DiskLimits, figure_of
from microveil.core import sorted_columns as in_order
from microveil.core import threads
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.errors import DataError, FileError, ParameterError
from microveil.measures import base as measure
from microveil.measures.base import Measure
from microveil.measures.nearest import neighbours
from microveil.measures.nearest.neighbours import link
from microveil.measures.risk.linkage import links_in_pieces
from microveil.measures.risk.proportions import sampled_rows
from microveil.measures.utility import moments
from microveil.storage import disk_columns as shelf
from microveil.storage.disk_columns import Shelf

Array = NDArray[np.float64]

NAMES = ["wages", "profit", "export", "import", "stock", "rate"]
SCORES = ["score_2", "score_3", "summary", "overall", "overall_sensitive"]
TAKEN = [*(name for name, gauge in measuring.GAUGES.items() if gauge.on_disk != "no"), *SCORES]
QUICK = [name for name in TAKEN if name not in ("classifier_auc", "kendall_bias")]
ALL = 10**6
EXACT = 1e-9


def table(rows: int = 700) -> Array:
    rng = np.random.default_rng(1)
    values = np.round(rng.lognormal(sigma=0.7, size=(rows, 5)) @ (np.eye(5) + 0.4) * 1000)
    return np.column_stack([values, rng.normal(size=rows) + 1e6])


def masked(data: Array, noise: float = 0.3) -> Array:
    moved = data + noise * data.std(axis=0) * np.random.default_rng(2).normal(size=data.shape)
    moved[:, :5] = np.round(moved[:, :5])
    return moved


def with_holes() -> tuple[Array, Array]:
    """Missing cells in either file and in both, a special code, an empty record, a column of few values, a constant."""
    before = table()
    before[:, 3] = np.round(before[:, 3] / 2000)
    after = masked(before)
    after[:, 3] = np.clip(after[:, 3], 0, None)
    before[::7, 1] = after[::7, 1] = after[::5, 2] = np.nan
    before[::50, 4] = after[::50, 4] = -9
    before[11] = np.nan
    before[:, 5] = after[:, 5] = 4.25
    return before, after


def written(folder: Path, before: Array, after: Array) -> tuple[Path, Path]:
    paths = folder / "before.parquet", folder / "after.parquet"
    for path, values in zip(paths, (before, after), strict=True):
        pl.DataFrame(values, schema=NAMES[: values.shape[1]]).write_parquet(path, row_group_size=97)
    return paths


def frames(*tables: Array) -> list[pl.DataFrame]:
    return [pl.DataFrame(values, schema=NAMES[: values.shape[1]]) for values in tables]


def numbers(figure: Measure) -> dict[str, float]:
    chance = {} if figure.chance is None else {"chance": figure.chance}
    return {"value": figure.value, "low": figure.low, "high": figure.high, **chance, **figure.parts}


def check_same(found: mv.Assessment, expected: mv.Assessment) -> None:
    assert list(found) == list(expected)
    for name, figure in expected.items():
        other = found[name]
        assert other.note == figure.note, name
        assert numbers(other) == pytest.approx(numbers(figure), rel=EXACT, abs=EXACT), name
    assert found.skipped == expected.skipped
    assert found.notes == expected.notes
    assert found.rows == expected.rows


@pytest.mark.quick("False")
@pytest.mark.parametrize("holes", [False, True])
def test_all_figures_are_those_of_tables_in_memory(tmp_path: Path, holes: bool) -> None:
    before, after = with_holes() if holes else (table(), masked(table()))
    expected = mv.assess(*frames(before, after), measures=TAKEN, seed=3, sanity=False)
    assert len(expected) == len(TAKEN)
    check_same(
        assess_files(*written(tmp_path, before, after), measures=TAKEN, seed=3, sample=ALL, sanity=False), expected
    )


def test_sensitive_columns_are_those_of_tables_in_memory(tmp_path: Path) -> None:
    before, after = with_holes()
    ids = ["dbrl", "extreme_disclosure", "pil", "ks", "selectivity", "overall"]
    options = {"measures": ids, "sensitive": ["export", "wages"], "seed": 3, "sanity": False}
    expected = mv.assess(*frames(before, after), **options)
    assert list(expected) == ids
    check_same(assess_files(*written(tmp_path, before, after), sample=ALL, **options), expected)


def test_files_of_text_are_measured_too(tmp_path: Path) -> None:
    before, after = frames(*with_holes())
    paths = tmp_path / "before.csv", tmp_path / "after.csv"
    for path, frame in zip(paths, (before, after), strict=True):
        frame.fill_nan(None).write_csv(path)
    ids = ["dbrl", "pil", "il1s", "ks"]
    found = assess_files(*paths, measures=ids, seed=3, sample=ALL, sanity=False)
    check_same(found, mv.assess(before, after, measures=ids, seed=3, sanity=False))


def test_sanity_lines_are_those_of_tables_in_memory(tmp_path: Path) -> None:
    before, after = table(), masked(table())
    ids = ["dbrl", "pil", "ks"]
    expected = mv.assess(*frames(before, after), measures=ids, seed=3)
    found = assess_files(*written(tmp_path, before, after), measures=ids, seed=3, sample=ALL)
    assert found.sanity is not None
    assert expected.sanity is not None
    assert found.sanity.to_dict() == expected.sanity.to_dict()
    assert json.loads(found.to_json())["measures"].keys() == set(ids)
    assert found.to_frame()["measure"].to_list() == ids


@pytest.mark.quick("False")
@pytest.mark.parametrize("holes", [False, True])
def test_figures_do_not_depend_on_the_size_of_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holes: bool
) -> None:
    paths = written(tmp_path, *(with_holes() if holes else (table(), masked(table()))))
    whole = assess_files(*paths, measures=QUICK, seed=3, sample=150, sanity=False)
    for module in (in_order, pairing, shelf):
        monkeypatch.setattr(module, "STEP", 37, raising=False)
        monkeypatch.setattr(module, "ROWS", 101, raising=False)
        monkeypatch.setattr(module, "MOST_ROWS", 53, raising=False)
        monkeypatch.setattr(module, "FEWEST_ROWS", 1, raising=False)
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 41, raising=False)
        monkeypatch.setattr(module, "PIVOTS", 50, raising=False)
    monkeypatch.setattr(shelf, "SHARE", 10**9 // (8 * 100))  # a column of more than 100 cells goes into buckets
    monkeypatch.setattr(neighbours, "PIECE_ROWS", 101)
    monkeypatch.setattr(threads, "CELLS_PER_PIECE", 300)
    monkeypatch.setattr(measure, "SMALL", 1)
    check_same(assess_files(*paths, measures=QUICK, seed=3, sample=150, sanity=False), whole)


@pytest.mark.slow
def test_figures_do_not_depend_on_the_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, *with_holes())
    monkeypatch.setattr(measure, "SMALL", 1)
    monkeypatch.setattr(threads, "CELLS_PER_PIECE", 300)
    monkeypatch.setattr(neighbours, "PIECE_ROWS", 101)
    found = []
    for count in ("1", "3"):
        monkeypatch.setenv("MICROVEIL_THREADS", count)
        found.append(assess_files(*paths, measures=QUICK, seed=3, sample=150, sanity=False).to_dict())
    assert found[0] == found[1], "to the last bit"


def test_a_sample_of_originals_is_linked_as_it_is_in_memory(tmp_path: Path) -> None:
    before, after = table(), masked(table(), 0.5)
    paths = written(tmp_path, before, after)
    found = assess_files(*paths, measures=["dbrl", "interval_disclosure_own"], seed=8, sample=60, sanity=False)
    seed = figures.seed_of("dbrl", Streams.from_seed(8))
    tried = sampled_rows(len(before), seed, sample=60)
    unit = before.std(axis=0)
    links = link(before[tried] / unit, after / unit, tried)
    dbrl = found["dbrl"]
    assert tried.size == 60
    assert dbrl.value == pytest.approx(links.hits / 60, rel=EXACT)
    assert dbrl.low < dbrl.value < dbrl.high
    assert dbrl.chance == pytest.approx(1 / len(before))
    assert dbrl.note == f"an estimate from 60 of {len(before)} records, drawn at random"


def cases() -> dict[str, tuple[Array, Array]]:
    rng = np.random.default_rng(5)
    normal = rng.normal(size=(900, 4))
    tails = rng.standard_cauchy(size=(900, 12))
    few = rng.integers(3, size=(900, 3)).astype(float)
    return {
        "weak": (normal, normal + 0.05 * rng.normal(size=normal.shape)),
        "strong": (normal, rng.permutation(normal)),
        "same": (normal, normal),
        "tails": (tails, tails * (1 + 0.1 * rng.normal(size=tails.shape))),
        "few values": (few, np.round(few + 0.4 * rng.normal(size=few.shape))),
        "one column": (normal[:, :1], normal[:, :1] + 0.01 * rng.normal(size=(900, 1))),
        "one value": (normal, np.zeros_like(normal)),
    }


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("rows", [64, 10_000])
def test_records_that_pass_by_are_searched_exactly(monkeypatch: pytest.MonkeyPatch, case: str, rows: int) -> None:
    before, after = cases()[case]
    monkeypatch.setattr(neighbours, "PIECE_ROWS", rows)
    tried = sampled_rows(len(before), 4, sample=300)
    found = links_in_pieces(Matrix.from_array(before), Matrix.from_array(after), tried)
    scale = before - before.mean(axis=0), after - before.mean(axis=0)
    expected = link(scale[0][tried] / before.std(axis=0), scale[1] / before.std(axis=0), tried)
    assert tried.size == 300
    np.testing.assert_array_equal(found.nearest, expected.nearest)
    np.testing.assert_array_equal(found.credit, expected.credit)


@pytest.mark.parametrize("case", ["weak", "tails", "one column"])
@pytest.mark.parametrize("sample", [2, 300, 900])
def test_strangers_that_pass_by_are_searched_exactly(monkeypatch: pytest.MonkeyPatch, case: str, sample: int) -> None:
    before = cases()[case][0]
    before = (before - before.mean(axis=0)) / before.std(axis=0)
    monkeypatch.setattr(neighbours, "PIECE_ROWS", 64)
    tried = np.sort(np.random.default_rng(1).permutation(900)[:sample])
    table = Matrix.from_array(before)
    gaps = np.square(before[tried, None] - before).sum(axis=2)
    gaps[np.arange(sample), tried] = np.inf
    np.testing.assert_array_equal(links_in_pieces(table, table, tried, own_barred=True).nearest, gaps.argmin(axis=1))


@pytest.mark.parametrize("kind", ["normal", "few values", "one value", "missing"])
def test_a_column_is_sorted_in_buckets(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(size=1_000)
    values = {"few values": np.round(values), "one value": np.full(1_000, 2.5)}.get(kind, values)
    if kind == "missing":
        values[rng.random(1_000) < 0.3] = np.nan
    with Shelf(tmp_path, memory=8_000) as folder:  # too little for the column as a whole
        column = folder.column()
        column.append(values)
        found = shelf.sorted_on_disk(cast(Array, column), folder)
        np.testing.assert_array_equal(found[:], np.sort(values[~np.isnan(values)]))


def test_columns_in_order_tell_what_numpy_and_scipy_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.stats import ks_2samp, wasserstein_distance

    monkeypatch.setattr(in_order, "STEP", 13)
    rng = np.random.default_rng(7)
    for digits in (8, 0):
        first, second = (np.sort(np.round(rng.normal(at, size=n), digits)) for at, n in ((0.0, 300), (0.3, 211)))
        shares = np.arange(0, 101) / 100
        np.testing.assert_allclose(
            in_order.quantiles(first, shares), np.quantile(first, shares), rtol=1e-14, atol=1e-15
        )
        assert moments.ks_distance(first, second) == pytest.approx(ks_2samp(first, second).statistic, rel=1e-12)
        assert moments._moved(first, second) == pytest.approx(wasserstein_distance(first, second), rel=1e-12)


def test_files_of_different_lengths_are_compared_as_distributions(tmp_path: Path) -> None:
    before, after = table(), masked(table())[:500]
    ids = ["ks", "pil", "correlation_difference", "propensity_2", "dbrl", "il1s", "rank_correlation_difference"]
    found = assess_files(*written(tmp_path, before, after), measures=ids, seed=1, sanity=False)
    check_same(found, mv.assess(*frames(before, after), measures=ids, seed=1, sanity=False))
    assert set(found.skipped) == {"dbrl", "il1s"}


def test_what_needs_all_records_is_skipped_with_the_reason(tmp_path: Path) -> None:
    paths = written(tmp_path, table(), masked(table()))
    found = assess_files(*paths, measures="default", seed=1)
    assert set(found.skipped) == {"rank_linkage", "subspace_linkage", "known_columns_linkage"}
    assert "random sample of the rows" in found.skipped["rank_linkage"]
    assert {*found, *found.skipped} == set(measuring.DEFAULT)
    policy = mv.read_policy({"policy": {"name": "any", "version": 1}, "limits": {"dbrl": {"at_most": 1.0}}})
    assert policy.check(found).met
    assert set(TAKEN) <= measuring.entries().keys()


def test_columns_that_must_be_held_need_the_memory() -> None:
    before, after = (Matrix.from_array(values) for values in (table(), masked(table())))
    streams = Streams.from_seed(1)
    with pytest.raises(DataError, match="holds whole columns"):
        figure_of("interval_disclosure", before, after, streams, DiskLimits(3 * 8 * 700 - 1, 100))
    figure_of("interval_disclosure", before, after, streams, DiskLimits(3 * 8 * 700, 100))


def test_measures_of_ranks_are_of_a_sample_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "RANK_ROWS", 400)
    before, after = table(), masked(table())
    found = assess_files(*written(tmp_path, before, after), measures=["rank_correlation_difference"], seed=1)
    figure = found["rank_correlation_difference"]
    assert figure.note.startswith("an estimate from 400 and 400 rows drawn at random")
    assert "0.05" in figure.note
    whole = mv.assess(*frames(before, after), measures=["rank_correlation_difference"], sanity=False)
    # The same rows of both files, so most of the error of one is in the other: the largest of 15 within 4 errors.
    assert figure.value == pytest.approx(whole["rank_correlation_difference"].value, abs=4 / np.sqrt(400))


@pytest.mark.parametrize("shown", [False, True])
def test_attacks_in_any_row_are_tried_on_a_sample_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    """A file of many rows is not called safe because nobody has looked."""
    ids = ["near_matches", "membership", "exact_matches", "max_record_risk"]
    before = table()
    rng = np.random.default_rng(5)
    strangers = rng.permuted(before, axis=0) + before.std(axis=0) * rng.normal(size=before.shape)
    after = before.copy() if shown else strangers
    whole = assess_files(*written(tmp_path, before, after), measures=ids, seed=1, sanity=False)
    check_same(whole, mv.assess(*frames(before, after), measures=ids, seed=1, sanity=False))
    monkeypatch.setattr(figures, "RANK_ROWS", 400)
    found = assess_files(*written(tmp_path, before, after), measures=ids, seed=1, sanity=False)
    assert not found.skipped
    for name in ids:
        assert "an estimate from 400 and 400 rows drawn at random, matches with other rows" in found[name].note
        assert (found[name].value > 0.9) == shown or name == "max_record_risk"


def test_the_seed_decides_and_no_other_measure(tmp_path: Path) -> None:
    paths = written(tmp_path, table(), masked(table()))
    alone = assess_files(*paths, measures=["dbrl"], seed=5, sample=50, sanity=False)["dbrl"]
    among = assess_files(*paths, measures=["ks", "dbrl", "mahalanobis_linkage"], seed=5, sample=50, sanity=False)[
        "dbrl"
    ]
    others = {assess_files(*paths, measures=["dbrl"], seed=s, sample=50, sanity=False)["dbrl"].value for s in range(6)}
    assert alone == among
    assert len(others) > 1


def test_public_columns_and_left_out_ones_are_told(tmp_path: Path) -> None:
    before, after = frames(table(), masked(table()))
    before = before.with_columns(pl.lit("x").alias("text"))
    paths = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path, frame in zip(paths, (before, after), strict=True):
        frame.write_parquet(path)
    options = {"measures": ["ks"], "public": ["rate"], "seed": 1, "sanity": False}
    found = assess_files(*paths, **options)  # type: ignore[arg-type]
    check_same(found, mv.assess(before, after, **options))  # type: ignore[arg-type]
    assert any("public, but not the same" in note for note in found.notes)
    assert any("text" in note for note in found.notes)


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("code", [-9, 9_999])
def test_a_code_is_one_where_it_is_one_in_memory(tmp_path: Path, code: float, times: int) -> None:
    before = np.random.default_rng(9).integers(5, size=(300, 2)).astype(float)
    before[:times, 0] = code
    paths = written(tmp_path, before, before)
    options = {"measures": ["ks", "mean_bias"], "seed": 1, "sanity": False}
    found = assess_files(*paths, **options)  # type: ignore[arg-type]
    check_same(found, mv.assess(*frames(before, before), **options))  # type: ignore[arg-type]
    assert any("taken for a code" in note for note in found.notes) == (times == 3)


def test_progress_grows_and_ends(tmp_path: Path) -> None:
    steps: list[tuple[str, float]] = []
    paths = written(tmp_path, table(), masked(table()))
    assess_files(*paths, measures=["dbrl", "ks"], seed=1, progress=lambda *step: steps.append(step))
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert steps[-1] == ("done", 1.0)
    assert any("reading" in name for name, _ in steps)


def test_bad_input_is_refused(tmp_path: Path) -> None:
    paths = written(tmp_path, table(), masked(table()))
    for options in ({"sample": 0}, {"sample": True}, {"memory": "1MB"}, {"measures": ["dbrk"]}, {"confidential": []}):
        with pytest.raises(ParameterError):
            assess_files(*paths, **options)  # type: ignore[arg-type]
    endless = masked(table())
    endless[5, 2] = np.inf
    with pytest.raises(DataError, match="'export' of the released file has infinite cells"):
        assess_files(*written(tmp_path, table(), endless))
    with pytest.raises(DataError, match="every column is constant"):
        assess_files(*written(tmp_path, np.ones((9, 2)), np.ones((9, 2))))
    with pytest.raises(FileError):
        assess_files(tmp_path / "before.parquet", tmp_path / "none.parquet")
