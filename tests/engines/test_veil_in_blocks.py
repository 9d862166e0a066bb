"""The default method on files in blocks: the release of memory, to the last bit, for every kind of column.

Blocks are made small, so that features and rows come in several parts.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.engines import block_writing
from microveil.measures.utility.dependence import rank_correlation_difference
from microveil.restore import arrange, limits
from microveil.restore.exchanges import BLOCK, block_starts
from microveil.restore.marginals import Marginals
from microveil.storage import disk_columns
from microveil.storage.disk_columns import DiskColumn, DiskFeatures, RemoteMatrix, Shelf, _NamelessFile
from microveil.workflow import protecting

ROWS, SEED = 9_000, 3


def amounts(rows: int = ROWS, width: int = 4) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) * 0.4)
    return pl.DataFrame(values, schema=[f"amount {j}" for j in range(width)])


def with_labels() -> pl.DataFrame:
    rng, data = np.random.default_rng(2), amounts()
    large = (data["amount 0"] > data["amount 0"].median()).to_numpy()
    size = np.where(large, "large", rng.choice(["small", "medium"], ROWS))
    region = rng.choice(["north", "south", None], ROWS, p=[0.5, 0.4, 0.1])
    code = rng.integers(1, 4, ROWS)
    follows = np.array(["a", "a", "b"])[code - 1]
    return data.with_columns(
        size=pl.Series(size),
        region=pl.Series(region, dtype=pl.String),
        code=pl.Series([f"k{number}" for number in code]),
        letter=pl.Series(follows),
    )


def with_gaps() -> pl.DataFrame:
    rng, data = np.random.default_rng(3), amounts()
    missing = {
        "amount 1": np.where(rng.random(ROWS) < 0.1, np.nan, data["amount 1"].to_numpy()),
        "visits": np.where(rng.random(ROWS) < 0.2, -9, rng.poisson(data["amount 0"].to_numpy() * 3)),
    }
    return data.with_columns(**{name: pl.Series(values).fill_nan(None) for name, values in missing.items()})


def with_rules() -> pl.DataFrame:
    rng, data = np.random.default_rng(4), amounts().select(pl.all().round(2))
    return data.with_columns(
        total=(pl.col("amount 0") + pl.col("amount 1")).round(2),
        part=pl.Series((data["amount 2"].to_numpy() * rng.uniform(0.4, 1, ROWS)).round(2)),
        share=(pl.col("amount 2") / pl.col("amount 3")).round(4),
        staff=pl.Series(rng.poisson(3 + data["amount 0"].to_numpy())),
    )


def with_dates() -> pl.DataFrame:
    rng, data = np.random.default_rng(5), amounts()
    birth = np.datetime64("1940-01-01") + rng.integers(0, 20_000, ROWS).astype("timedelta64[D]")
    return data.with_columns(
        birth=pl.Series(birth).cast(pl.Date), year=birth.astype("datetime64[Y]").astype(int) + 1970
    )


def in_clusters() -> pl.DataFrame:
    rng = np.random.default_rng(6)
    group, values = rng.integers(0, 3, ROWS), rng.normal(size=(ROWS, 4))
    values[:, 1] += np.where(group == 0, 2, -2) * values[:, 0]
    return pl.DataFrame(values + 3 * group[:, None], schema=list("abcd"))


def with_weight() -> pl.DataFrame:
    return amounts().with_columns(weight=np.random.default_rng(7).uniform(1, 5, ROWS))


CASES: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, Any]]] = {
    "amounts": (amounts, {}),
    "clusters": (in_clusters, {}),
    "labels": (with_labels, {}),
    "gaps": (with_gaps, {}),
    "rules": (with_rules, {}),
    "dates": (with_dates, {}),
    "public": (amounts, {"public": ["amount 0", "amount 2"]}),
    "weight": (with_weight, {"weight": "weight"}),
    "exact": (amounts, {"exact": True}),
    "original": (amounts, {"marginals": "original", "rules": None}),
    "labels alone": (lambda: with_labels().select("size", "region", "code"), {}),
    "few rows": (lambda: amounts(60), {}),
}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of one block of rows, and limits in parts of less than half of the rows."""
    monkeypatch.setattr(disk_columns, "ROWS_AT_ONCE", BLOCK)
    monkeypatch.setattr(limits, "AT_ONCE", 4_000)


@pytest.mark.usefixtures("small_parts", "few_exchanges")
@pytest.mark.quick("amounts", "labels", "gaps", "rules")
@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_column_is_protected_to_the_bit_as_in_memory(tmp_path: Path, case: str) -> None:
    make, options = CASES[case]
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    make().write_parquet(source, row_group_size=2_000)
    inside = mv.protect_file(source, tmp_path / "inside.parquet", engine="memory", seed=SEED, **options)
    release = mv.protect_file(source, target, engine="stream", memory="100MB", seed=SEED, **options)
    whole, found = pl.read_parquet(tmp_path / "inside.parquet"), pl.read_parquet(target)
    assert found.equals(whole)
    assert found.schema == whole.schema
    assert release.kept == pytest.approx(inside.kept, rel=1e-6, abs=1e-12)
    assert release.rules == inside.rules
    assert release.kinds == inside.kinds
    assert release.labels == inside.labels
    assert [said for said in inside.warnings if said not in release.warnings] == []


@pytest.mark.usefixtures("small_parts", "few_exchanges")
@pytest.mark.parametrize("case", ["labels", "gaps", "rules"])
def test_text_files_come_back_as_from_memory(tmp_path: Path, case: str) -> None:
    CASES[case][0]().write_csv(tmp_path / "in.csv")
    mv.protect_file(tmp_path / "in.csv", tmp_path / "inside.csv", engine="memory", seed=SEED)
    mv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", engine="stream", seed=SEED)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "inside.csv").read_bytes()


@pytest.mark.usefixtures("few_exchanges")
def test_auto_streams_a_file_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_labels().write_parquet(tmp_path / "in.parquet")
    seen: list[str] = []
    monkeypatch.setattr(block_writing, "write_blocks", _noted(block_writing.write_blocks, seen))
    mv.protect_file(tmp_path / "in.parquet", tmp_path / "one.parquet", seed=SEED)
    assert seen == []
    monkeypatch.setattr(protecting, "_free_memory", lambda: 10**6)
    release = mv.protect_file(tmp_path / "in.parquet", tmp_path / "two.parquet", seed=SEED)
    assert (seen, release.method) == (["called"], "veil")
    assert pl.read_parquet(tmp_path / "two.parquet").equals(pl.read_parquet(tmp_path / "one.parquet"))


def _noted(function: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        seen.append("called")
        return function(*given, **named)

    return called


@pytest.mark.usefixtures("small_parts", "few_exchanges")
def test_values_leave_their_block(tmp_path: Path) -> None:
    """A released value comes from anywhere in the file: each block of rows has values of its own level before."""
    level = np.repeat([0.0, 1_000.0], ROWS // 2)
    data = pl.DataFrame({"a": level + amounts()["amount 0"], "b": level + amounts()["amount 1"], "c": -level})
    data = data.with_columns(c=data["c"] + amounts()["amount 2"])
    data.write_parquet(tmp_path / "in.parquet")
    mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", engine="stream", seed=SEED)
    found = pl.read_parquet(tmp_path / "out.parquet")
    for name in "ab":
        high = found[name].to_numpy() > 500
        assert 0.45 < high[: ROWS // 2].mean() < 0.55
        assert high.mean() == pytest.approx(0.5, abs=0.01)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, 10**8)


def test_features_on_a_disk_are_read_and_changed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_columns, "ROWS_AT_ONCE", 700)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2_000, 5)).astype(np.float32)
    features = DiskFeatures(2_000, 5, tmp_path)
    for number, column in enumerate(values.T):
        features[:, number] = column
    assert [(first, len(part)) for first, part in features.parts()] == [(0, 700), (700, 700), (1_400, 600)]
    assert (np.vstack([part for _, part in features.parts()]) == values).all()
    starts = np.array([0, 450, 1_000, 1_550, 2_000])
    assert [first for first, _ in features.parts(starts)] == [0, 1_000, 1_550], "whole blocks"
    for _, part in features.parts(starts):
        part[:, 2] *= 2
    assert (features[:, 2] == 2 * values[:, 2]).all()
    assert (features[:, 3] == values[:, 3]).all()
    features[:, 4] = 0.0
    assert not features[:, 4].any()
    assert list(tmp_path.iterdir()) == [], "the file has no name"


def test_what_was_kept_is_measured_with_few_columns_held(shelf: Shelf) -> None:
    rows, width = 100_000, 20
    rng = np.random.default_rng(0)
    table = RemoteMatrix((), shelf=shelf).with_columns([rng.normal(size=rows) for _ in range(width)])
    rank_correlation_difference(table, table)  # loads what it works with
    tracemalloc.start()
    try:
        rank_correlation_difference(table, table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * rows * 8, "six columns of twenty"


@pytest.mark.parametrize("rows", [5, BLOCK, 3 * BLOCK // 2, 2 * BLOCK, 10 * BLOCK + 7])
@pytest.mark.parametrize("shift", [0, 1, BLOCK // 2, BLOCK - 1])
def test_no_block_is_short_wherever_blocks_start(rows: int, shift: int) -> None:
    starts = block_starts(rows, (), shift)
    sizes = np.diff(starts)
    assert (starts[0], starts[-1]) == (0, rows)
    assert (sizes >= min(rows, BLOCK // 2)).all()
    assert (sizes <= 3 * BLOCK // 2).all()
    assert set(block_starts(rows, (2, 4), shift)) == {*starts.tolist(), 2, 4}, "and no block crosses a border"


def test_columns_on_a_disk_are_put_aside_taken_and_computed_with(shelf: Shelf) -> None:
    first, second = np.arange(1_000.0), np.random.default_rng(0).normal(size=1_000)
    matrix = RemoteMatrix((), shelf=shelf).with_columns([first, second])
    assert all(isinstance(column, DiskColumn) for column in matrix.columns)
    rows = np.random.default_rng(1).permutation(1_000)
    for some in (rows, rows[:10]):
        taken = matrix.take(some)
        assert (taken.columns[0][:] == first[some]).all()
        assert isinstance(taken.columns[1], DiskColumn)
    assert ((matrix.columns[0] - 2 * matrix.columns[1]) == first - 2 * second).all()
    assert np.isnan(matrix.columns[1]).sum() == 0
    matrix.columns[1][10:20] = np.zeros(10)
    assert np.count_nonzero(matrix.columns[1]) == 990


@pytest.mark.usefixtures("few_exchanges")
@pytest.mark.parametrize("kind", ["smoothed", "original", "stratified"])
def test_an_arrangement_is_the_same_wherever_the_columns_are(shelf: Shelf, kind: Any) -> None:
    data = amounts(5_000).to_numpy()
    streams = Streams.from_seed(1)
    found = []
    for matrix in (Matrix(list(data.T.copy())), RemoteMatrix((), shelf=shelf).with_columns(list(data.T.copy()))):
        table = Microdata(matrix, tuple("abcd"))
        step = Marginals(marginals=kind)
        marginals = [step.of(column, None, streams.stream(j)) for j, column in enumerate(matrix.columns)]
        start = [
            matrix.put_aside(np.random.default_rng(j).permutation(column[:])) for j, column in enumerate(matrix.columns)
        ]
        found.append(arrange(start.copy, marginals, table, None, streams.stream("arrange")))
    inside, outside = found
    assert inside.settled == outside.settled
    for one, other in zip(inside.columns, outside.columns, strict=True):
        assert (one == other[:]).all()


def bytes_without_name(folder: Path) -> int:
    """What files without a name that this process has opened in a folder take there."""
    found = 0
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            if handle.readlink().is_relative_to(folder) and handle.stat().st_nlink == 0:
                found += handle.stat().st_blocks * 512
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="opened files are listed on Linux only")
def test_temporary_files_are_let_go_with_their_last_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, width, levels = 30_000, 6, 3
    label = np.random.default_rng(1).choice(["a", "b", "c"], rows)
    amounts(rows, width).with_columns(label=pl.Series(label)).write_parquet(tmp_path / "in.parquet")
    most = [0]

    def seen(file: _NamelessFile, place: int, values: Any, write: Any = _NamelessFile._write) -> None:
        write(file, place, values)
        most[0] = max(most[0], bytes_without_name(tmp_path))

    monkeypatch.setattr(_NamelessFile, "_write", seen)
    mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", seed=SEED, engine="stream")
    original, features = 8 * width, 16 * width + 4 * levels
    assert original < most[0] / rows < original + features + 8, "these and a column, at most"
    assert bytes_without_name(tmp_path) == 0


def test_many_labels_are_kept_apart_as_in_memory(tmp_path: Path) -> None:
    """Numbers of labels are kept in a byte each: products of them are not."""
    rng = np.random.default_rng(0)
    job, sex = rng.integers(0, 30, 4_000), rng.integers(0, 20, 4_000)
    job[(job == 25) & (sex > 12)] = 3
    amounts = {"w": rng.lognormal(size=4_000), "v": rng.lognormal(size=4_000)}
    data = pl.DataFrame({**amounts, "sex": [f"s{i:02}" for i in sex], "job": [f"j{i:02}" for i in job]})
    data.write_parquet(tmp_path / "in.parquet")
    mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", engine="stream", memory="100MB", seed=1)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(mv.protect(data, seed=1).data)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_what_follows_from_a_missing_date_is_missing(ending: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64("2000-01-01") + rng.integers(0, 5_000, 3_000).astype("timedelta64[D]")
    data = pl.DataFrame(
        {"date": pl.Series(days).cast(pl.Date), "fee": rng.lognormal(size=3_000), "x": rng.normal(size=3_000)}
    )
    data = data.with_columns(date=pl.when(pl.Series(rng.random(3_000) > 0.1)).then("date"))
    data = data.with_columns(year=pl.col("date").dt.year().cast(pl.Int64))
    (data.write_csv if ending == ".csv" else data.write_parquet)(tmp_path / f"in{ending}")
    mv.protect_file(tmp_path / f"in{ending}", tmp_path / f"out{ending}", engine="stream", memory="100MB", seed=1)
    path = tmp_path / f"out{ending}"
    after = pl.read_csv(path, try_parse_dates=True) if ending == ".csv" else pl.read_parquet(path)
    assert after["year"].null_count() == data["year"].null_count()
    assert after["year"].equals(after["date"].dt.year().cast(pl.Int64))
