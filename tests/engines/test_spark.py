"""Tables on Spark: the same release as in memory, whatever the partitions, and whatever happens to a task."""

import gc
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from engines.spark_session import java_is_there, session

import microveil as mv
from microveil.core import shuffle
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.core.moments import merged, moments
from microveil.core.rng import Streams
from microveil.engines.out_of_core import check_eligible
from microveil.engines.spark.frames import SparkSource, write_dataset
from microveil.engines.spark.protecting import SparkRequest, protect_spark, spark_table
from microveil.engines.spark.rows import rest_check
from microveil.engines.spark.sessions import check_workers
from microveil.intake.roles import resolve_roles
from microveil.methods import method_named

# pyspark leaves the sockets that it reads results from to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ROWS = 30_000
ROOT = Path(__file__).parent.parent.parent
CONFIDENTIAL = ("a.b", "b", "c")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    opened = session("local[2,4]", tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()
    gc.collect()


def columns(rows=ROWS, offset=0.0):
    """Correlated columns beside text and whole numbers, one of single precision, a name with a dot."""
    rng = np.random.default_rng(11)
    known = rng.normal(size=(rows, 2))
    own = known @ rng.normal(size=(2, 3)) + rng.standard_t(8, size=(rows, 3)) @ rng.normal(size=(3, 3))
    own += offset * own.std(axis=0)
    return pl.DataFrame(
        {
            "name": [f"firm {k % 97}" if k % 5 else None for k in range(rows)],
            "x": known[:, 0],
            "a.b": own[:, 0],
            "b": own[:, 1],
            "y": known[:, 1],
            "c": own[:, 2].astype(np.float32 if offset == 0 else np.float64),
            "w": rng.uniform(0.5, 2.0, size=rows),
            "k": np.arange(rows),
        }
    )


def on_spark(spark, frame, partitions):
    """The rows as a DataFrame of so many partitions, in their order."""
    cut = np.linspace(0, len(frame), partitions + 1).astype(int).tolist()
    parts = [spark.createDataFrame(frame[a:b].to_arrow()).coalesce(1) for a, b in pairwise(cut)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


def protected(data, method, params, *, public=(), weight=None, seed=7, **more):
    source = SparkSource.opened(data)
    chosen = more.pop("confidential", list(CONFIDENTIAL))
    roles = resolve_roles(source.numeric, confidential=chosen, public=list(public), strata=None, weight=weight)
    request = SparkRequest(seed=seed, **{"rules": None, **more})
    return protect_spark(method_named(method).plan(params), source, roles, request)


def in_memory(frame, method, params, *, public=(), weight=None, confidential=CONFIDENTIAL):
    roles = {"confidential": list(confidential), "public": list(public), "weight": weight, "keep": "rest"}
    return mv.protect(frame, method, seed=7, rules=None, **roles, **params)


def as_frame(data):
    return pl.from_arrow(data.toArrow())


def assert_same(found, wanted):
    """The same columns, types and rows; numbers to 1e-9 of the column, or to the digits that they are stored with."""
    assert found.columns == wanted.columns
    for name in wanted.columns:
        one, other = found[name], wanted[name]
        if one.dtype not in (pl.Float64, pl.Float32):
            assert one.equals(other), name
            continue
        tolerance = 1e-9 if one.dtype == pl.Float64 else 2 * np.finfo(np.float32).eps
        gap = np.abs(one.to_numpy() - other.to_numpy()).max()
        assert gap <= tolerance * np.abs(other.to_numpy()).max(), (name, gap)


WAYS = [
    ("ipso", {}, ("x", "y"), 2),
    ("pca", {}, (), 3),
    ("pca", {}, (), 7),
    ("pca", {"perturb": "noise"}, ("x",), 3),
    ("romm", {"noise": 0.5}, ("x", "y"), 7),
    ("cholesky", {}, (), 2),
    ("primp", {}, (), 2),
]


@pytest.mark.quick("ipso-*")  # without a shuffle, which takes Spark longest
@pytest.mark.parametrize(("method", "params", "public", "partitions"), WAYS)
def test_equals_memory_whatever_the_partitions(spark, method, params, public, partitions):
    frame = columns()
    release = protected(on_spark(spark, frame, partitions), method, params, public=public)
    wanted = in_memory(frame, method, params, public=public)
    assert_same(as_frame(release.data), wanted.data)
    assert release.data.schema["c"].dataType.typeName() == "float"
    assert release.written.proof.mean_error == pytest.approx(wanted.kept["mean"], abs=1e-7)
    release.close()


@pytest.mark.slow
def test_a_dataset_is_numbered_by_its_files_and_shuffled_in_buckets(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(shuffle, "SMALL", 10_000)
    monkeypatch.setattr(shuffle, "ROWS_PER_BUCKET", 20_000)
    frame = columns(150_000).drop("name", "x", "y", "w")
    frame[:90_000].write_parquet(tmp_path / "2.parquet", row_group_size=40_000)
    frame[90_000:].write_parquet(tmp_path / "3 and more.parquet")
    frame[:0].write_parquet(tmp_path / "1.parquet")
    release = protected(str(tmp_path), "pca", {})
    assert_same(as_frame(release.data).sort("k"), in_memory(frame, "pca", {}).data)
    write_dataset(release.data, str(tmp_path / "out"))
    assert_same(pl.read_parquet(tmp_path / "out" / "*.parquet").sort("k"), in_memory(frame, "pca", {}).data)
    with pytest.raises(FileError, match="exists already"):
        write_dataset(release.data, str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["out"]
    release.close()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "public"), [("ipso", ("x",)), ("pca", ())])
def test_moments_are_exact_far_from_zero(spark, method, public):
    frame = columns(offset=1e6)
    release = protected(on_spark(spark, frame, 3), method, {}, public=public)
    found = as_frame(release.data)
    names = [*public, *CONFIDENTIAL]
    shift = np.round(frame.select(names).to_numpy()[0])  # whole numbers come off without a trace
    before, after = (data.select(names).to_numpy() - shift for data in (frame, found))
    assert np.abs(after - before).max() > 0.5
    sd = before.std(axis=0)
    assert np.abs(after.mean(axis=0) - before.mean(axis=0)).max() <= 1e-9 * sd.min()
    gap = np.abs(np.cov(after.T) - np.cov(before.T)) / np.outer(sd, sd)
    assert gap.max() <= 1e-9
    proof = release.written.proof
    assert max(proof.mean_error, proof.covariance_error) <= 1e-9
    release.close()


@pytest.mark.slow
def test_weights_and_sums(spark):
    frame = columns().with_columns(
        total=pl.col("a.b") + pl.col("b"),
        day=pl.lit("2020-02-29").str.to_date(),
        known=pl.col("k") % 3 == 0,
        words=pl.concat_list("name", "name"),
    )
    chosen = [*CONFIDENTIAL, "total"]
    rows = np.array([5, 3, 20_000])
    release = protected(
        on_spark(spark, frame, 2), "ipso", {}, public=["x"], weight="w", confidential=chosen, sampled=rows
    )
    found = as_frame(release.data)
    assert_same(found, in_memory(frame, "ipso", {}, public=["x"], weight="w", confidential=chosen).data)
    assert [rule.sentence(chosen) for rule in release.outcome.dependence.rules] == ["total = a.b + b"]
    assert release.written.before == pytest.approx(frame.select("x", *chosen).to_numpy()[rows].T, rel=1e-12)
    assert release.written.after == pytest.approx(found.select(chosen).to_numpy()[rows].T, rel=1e-6)
    weights = pytest.approx(frame["w"].to_numpy()[rows] / frame["w"].mean(), rel=1e-12)
    assert spark_table(release.intake).take(rows).weights == weights
    assert release.written.weights == weights
    release.close()


def killing(of, marker):
    """A row map whose process dies the first time."""

    def once(cells, rows):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return of(cells, rows)
        os._exit(1)

    return once


@pytest.mark.slow
def test_the_account_is_that_of_memory(spark, tmp_path):
    frame = columns().with_columns(total=pl.col("a.b") + pl.col("b"))
    chosen = ["a.b", "b", "total"]
    roles = {"confidential": chosen, "public": ["x"], "keep": "rest"}
    release = mv.protect_spark(on_spark(spark, frame, 2), "ipso", **roles, seed=7)
    inside = mv.protect(frame, "ipso", **roles, seed=7)
    assert_same(as_frame(release.data), inside.data)
    assert release.rows == inside.rows
    assert release.rules == inside.rules == ["total = a.b + b"]
    assert release.warnings == inside.warnings
    assert (release.kinds, release.in_clear) == (inside.kinds, inside.in_clear)
    assert release.unique_in_clear == inside.unique_in_clear == 1.0
    assert set(release.kept) == set(inside.kept)
    assert max(release.kept.values()) < 1e-9
    achieved = {name: dose.achieved for name, dose in inside.dose.items()}
    assert {name: dose.achieved for name, dose in release.dose.items()} == pytest.approx(achieved, abs=1e-9)
    release.report(tmp_path / "report.html")
    release.close()


@pytest.mark.slow
def test_the_account_counts_all_rows(spark):
    """It is taken on fewer rows than there are."""
    rare = (pl.col("k") % 500 == 0).cast(float)
    frame = columns().with_columns(b=rare, c=2 * rare)
    roles = {"confidential": ["b", "c"], "keep": "rest", "rules": None, "seed": 7}
    release, inside = (mv.protect_spark(on_spark(spark, frame, 2), "pca", **roles), mv.protect(frame, "pca", **roles))
    assert release.warnings == inside.warnings
    assert any("99.60% of the records come back" in said for said in release.warnings)
    release.close()


@pytest.mark.slow
def test_a_killed_task_changes_nothing(spark, tmp_path):
    release = protected(on_spark(spark, columns(), 2), "pca", {})
    wanted = as_frame(release.data)
    source = SparkSource.opened(release.data)  # any frame: only its columns and their types count here
    table, far = spark_table(release.intake), release.outcome.table
    dying = replace(release.outcome, released=killing(release.outcome.released, tmp_path / "released"))
    assert as_frame(source.released(table, dying)).equals(wanted)

    streams = [Streams(1).stream(k) for k in range(2)]
    first_two = lambda cells, rows: cells[:2]  # noqa: E731 - workers get it by value
    calm = table.permuted(first_two, streams, print)
    shaken = table.permuted(killing(first_two, tmp_path / "permuted"), streams, print)
    rows = np.arange(0, ROWS, 97)
    assert np.array_equal(
        calm.take(rows).values.piece(slice(0, rows.size)), shaken.take(rows).values.piece(slice(0, rows.size))
    )
    one, other = far.measure(first_two), far.measure(killing(first_two, tmp_path / "measured"))
    assert np.array_equal(one.comoment, other.comoment)
    assert len(list(tmp_path.iterdir())) == 3
    release.close()


def test_check_sums_are_of_cells_not_of_what_the_memory_held():
    missing = np.arange(13) % 5 == 0

    def read(past_the_end, beneath, first=0):
        """The same cells, with other bytes where Arrow holds no cell."""
        bits = np.packbits([*~missing, *[past_the_end] * 3], bitorder="little")
        numbers = np.where(missing, beneath, np.arange(first, first + 13))
        buffers = [pa.py_buffer(part.tobytes()) for part in (bits, numbers)]
        return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.int64(), 13, buffers)], names=["k"])

    check = rest_check(read(0, 0))
    assert check == rest_check(read(1, 0)) == rest_check(read(0, 7))
    assert check == rest_check(pa.Table.from_batches([read(1, 7).slice(0, 4), read(0, 7).slice(4)]))
    assert check != rest_check(read(0, 0, first=1))
    assert check != rest_check(read(0, 0).take(np.arange(13)[::-1]))


@pytest.mark.slow
def test_rows_that_change_when_they_are_read_again_are_noticed(spark):
    def other_each_time(batches):
        for batch in batches:
            numbers = np.frombuffer(os.urandom(4 * batch.num_rows), dtype=np.uint32)
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(numbers.astype(float))], names=["id", "n"])

    frame = spark.range(1000).mapInArrow(other_each_time, "id long, n double")
    release = protected(frame, "ipso", {}, confidential=["id", "n"])
    assert release.data.count() == 1000
    release.close()
    with pytest.raises(Exception, match="another order or changed"):
        release.data.collect()


@pytest.mark.slow
def test_numbers_that_a_double_cannot_hold_are_refused(spark):
    rows = spark.range(300).selectExpr("rand(1) a", "rand(2) b", "id k", "cast(id / 8 as decimal(38, 18)) d")
    for name, cell in {
        "k": f"id + {2**60}",
        "d": "cast(id + 1e25 as decimal(38, 0)) + cast(1 as decimal(38, 0))",
    }.items():
        wide = rows.selectExpr("a", "b", f"{cell.replace('id', 'k')} {name}")
        with pytest.raises(DataError, match=f"column '{name}' has numbers with more digits"):
            mv.protect_spark(wide, "ipso", rules=None, seed=1)
    mv.protect_spark(rows, "ipso", rules=None, seed=1).close()


@pytest.mark.slow
def test_what_is_refused(spark):
    frame = columns(100)
    holes = frame.with_columns(b=pl.when(pl.col("k") == 7).then(None).otherwise(pl.col("b")))
    with pytest.raises(DataError, match=r"'b' has missing cells.*engine='memory'"):
        protected(on_spark(spark, holes, 1), "pca", {})
    coded = frame.with_columns(b=pl.when(pl.col("k") % 9 == 0).then(-99.0).otherwise(pl.col("b").abs()))
    with pytest.raises(DataError, match="looks like a code"):
        protected(on_spark(spark, coded, 1), "pca", {}, rules="infer")
    with pytest.raises(DataError, match="not the sum"):
        protected(on_spark(spark, frame, 1), "pca", {}, rules={"sums": [{"total": "c", "parts": ["a.b", "b"]}]})
    with pytest.raises(DataError, match="has 2 rows"):
        protected(on_spark(spark, frame[:2], 1), "pca", {})
    typed = frame.with_columns(price=pl.col("k").cast(pl.String) + ",5")
    with pytest.raises(DataError, match="'price' is text, but most of its cells look like numbers"):
        mv.protect_spark(on_spark(spark, typed, 1), "pca")
    labelled = frame.with_columns(region=pl.Series(["north", "south"] * 50))
    with pytest.raises(DataError, match="pca cannot protect labels, and column 'region' has some"):
        mv.protect_spark(on_spark(spark, labelled, 1), "pca")
    with pytest.raises(DataError, match="'b' is alone"):
        mv.protect_spark(on_spark(spark, frame, 1), "pca", confidential=["b"])
    told = frame.with_columns(total=pl.col("b") + pl.col("c"))
    with pytest.raises(DataError, match="'b' follows from 'c', 'total'"):
        mv.protect_spark(on_spark(spark, told, 3), "pca", confidential=["a.b", "b"])
    with pytest.raises(DataError, match="every column is constant"):
        mv.protect_spark(on_spark(spark, frame.with_columns(b=pl.lit(1.0)), 1), "ipso", confidential=["b"])
    with pytest.raises(ParameterError, match="keeps weighted moments only with exact"):
        mv.protect_spark(on_spark(spark, frame, 1), "pca", confidential=["a.b", "b"], weight="w", exact=False)
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()  # nothing is left on the disks
    with pytest.raises(FileError, match="cannot read"):
        SparkSource.opened("/nowhere/at/all", spark)
    with pytest.raises(FileError, match=r"cannot read .* as Parquet"):
        SparkSource.opened(__file__, spark)


LINEAR = {"cholesky", "factor", "ics", "ipso", "noise", "normal", "pca", "primp", "primp_cholesky", "romm", "swap"}
LINEAR |= {"veil"}
"""Methods that go row by row, only permute, or exchange values within records, by default."""


@pytest.mark.parametrize("method", sorted({*mv.methods()} - LINEAR - {"correct", "synthetic_addition"}))
def test_methods_that_need_all_rows_at_once_name_an_engine(method):
    with pytest.raises(ParameterError, match=r"'spark' cannot run .* use engine='memory'"):
        check_eligible(method_named(method).plan({"top": {"a": 1.0}} if method == "recode" else {}), "spark")


@pytest.mark.parametrize("method", sorted(LINEAR))
def test_linear_methods_are_eligible(method):
    check_eligible(method_named(method).plan({}), "spark")


def test_merged_moments_are_those_of_all_rows():
    rng = np.random.default_rng(3)
    cells = rng.normal(size=(3, 1000)) * [[1.0], [1e-3], [1e3]] + [[1e6], [1e3], [0.0]]
    weights = rng.uniform(0.1, 3, size=1000)
    whole = moments(lambda rows: cells[:, rows], 1000, weights=weights)
    cuts = [0, 1, 300, 1000]
    parts = [
        moments(lambda rows, a=a, b=b: cells[:, a:b][:, rows], b - a, weights=weights[a:b]) for a, b in pairwise(cuts)
    ]
    found = merged(parts)
    assert found.weight == pytest.approx(whole.weight, rel=1e-14)
    assert np.abs(found.mean - whole.mean).max() <= 1e-12 * whole.sd.max()
    assert np.abs(found.comoment - whole.comoment).max() <= 1e-11 * np.abs(whole.comoment).max()
    scale = np.outer(whole.sd, whole.sd) * whole.weight
    assert np.abs((found.comoment - whole.comoment) / scale).max() <= 1e-10


@pytest.mark.slow
@pytest.mark.skipif(not java_is_there(), reason="Spark needs Java 17 or newer")
def test_on_a_cluster_whose_executor_is_killed(tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    frame = columns()
    (tmp_path / "in").mkdir()
    frame[:20_000].write_parquet(tmp_path / "in" / "1.parquet", row_group_size=5_000)
    frame[20_000:].write_parquet(tmp_path / "in" / "2.parquet")
    script, job = ROOT / "scripts" / "spark_cluster.py", Path(__file__).parent / "spark_job.py"
    subprocess.run([sys.executable, script, sys.executable, job, tmp_path], check=True, timeout=600)
    assert (tmp_path / "killed").exists()
    assert_same(pl.read_parquet(tmp_path / "out" / "*.parquet").sort("k"), in_memory(frame, "pca", {}).data)


def test_the_check_of_workers_leaves_the_log_as_quiet_as_it_was(spark):
    check_workers(spark)
    manager = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager
    assert str(manager.getRootLogger().getLevel().toString()) in ("WARN", "ERROR", "OFF")  # by default, not INFO
