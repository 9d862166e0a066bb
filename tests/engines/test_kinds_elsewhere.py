"""Kinds of columns where the rows are not in memory: found by all rows, and with the consequences they have there."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engines.spark_session import session

import microveil as mv
from microveil.core.errors import DataError, DisclosureWarning, MicroveilError
from microveil.engines import renumbering
from microveil.intake.from_dates import completed_years
from microveil.storage import distinct
from microveil.storage.disk_columns import Shelf
from microveil.storage.distinct import DistinctCounter

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

ROWS = 25_000  # more than are looked at first
SEED = 5
protect_file = partial(mv.protect_file, overwrite=True, engine="stream", memory="100MB", seed=SEED)


def visits(rows: int = ROWS) -> pl.DataFrame:
    """Visits of patients: identifiers, dates of several kinds, columns that follow from them, free text."""
    rng = np.random.default_rng(3)
    birth = np.datetime64("1935-03-01") + rng.integers(0, 28_000, rows).astype("timedelta64[D]")
    visit = np.datetime64("2012-01-01") + rng.integers(0, 4_000, rows).astype("timedelta64[D]")
    minutes = rng.integers(0, 24 * 60, rows)
    return pl.DataFrame(
        {
            "record_id": np.arange(rows) + 100,
            "patient_id": rng.integers(0, rows // 3, rows) + 10**6,
            "birth": pl.Series(birth).cast(pl.Date),
            "visit": [f"{day:%d.%m.%Y}" for day in visit.astype(object)],
            "seen_at": pl.Series(visit.astype("datetime64[us]") + minutes.astype("timedelta64[m]")),
            "year": visit.astype("datetime64[Y]").astype(int) + 1970,
            "age": completed_years(birth, visit).astype(int),
            "age_now": completed_years(birth, np.full(rows, np.datetime64("2024-05-17"))).astype(int),
            "cost": rng.lognormal(3, 1, rows),
            "stay": rng.poisson(4, rows),
            "country": ["Utopia"] * rows,
            "note": [f"came {k} times and said the word {k * 7}" for k in range(rows)],
        }
    )


def saved(frame: pl.DataFrame, folder: Path, ending: str) -> Path:
    path = folder / f"in{ending}"
    frame.write_csv(path, time_format="%H:%M:%S") if ending == ".csv" else frame.write_parquet(
        path, row_group_size=3_000
    )
    return path


def read(path: Path) -> pl.DataFrame:
    return pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


def agrees(frame: pl.DataFrame) -> None:
    """Years and ages follow from the dates beside them in every row."""
    birth, visit = (frame[name].to_numpy().astype("datetime64[D]") for name in ("birth", "visit"))
    assert (frame["year"].to_numpy() == visit.astype("datetime64[Y]").astype(int) + 1970).all()
    assert (frame["age"].to_numpy() == completed_years(birth, visit)).all()


@pytest.mark.quick("ipso-.parquet", "pca-.csv")
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("method", ["ipso", "pca"])
def test_dates_are_protected_to_the_bit_as_in_memory(tmp_path: Path, ending: str, method: str) -> None:
    frame = visits().drop("patient_id")  # by which memory protects by unit
    source, target = saved(frame, tmp_path, ending), tmp_path / f"out{ending}"
    whole = mv.protect_file(source, tmp_path / f"inside{ending}", method, engine="memory", seed=SEED)
    release = protect_file(source, target, method)
    if ending == ".csv":
        assert target.read_bytes() == (tmp_path / "inside.csv").read_bytes()
    else:
        inside = read(tmp_path / "inside.parquet")
        assert read(target).equals(inside)
        assert read(target).schema == inside.schema
        assert inside.schema["age"] == pl.Int64
        agrees(inside.with_columns(pl.col("visit").str.to_date("%d.%m.%Y")))
    assert release.kinds == whole.kinds
    assert release.warnings[: len(whole.warnings)] == [said for said in whole.warnings if "formulas" not in said]
    assert (release.in_clear, release.unique_in_clear) == ((), 0.0)
    assert release.rules == whole.rules
    assert {"age follows from birth: completed years until visit", "year follows from visit: the year"} < {
        *release.rules
    }
    assert not {"record_id", "note"} & {*read(target).columns}


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("kind", [pl.Int64, pl.Int32, pl.Float64])
def test_numbers_that_are_dates_are_dates_there_too(tmp_path: Path, ending: str, kind: Any) -> None:
    days = visits(12_000)["birth"]
    numbers = {"day": days.dt.strftime("%Y%m%d"), "month": days.dt.strftime("%Y%m")}
    frame = visits(12_000).select("cost", **{name: cells.cast(pl.Int64).cast(kind) for name, cells in numbers.items()})
    february_31 = pl.when(pl.int_range(pl.len()) == 11_000).then(20_260_231).otherwise("day").cast(kind)
    frame = frame.with_columns(july=frame["month"] // 100 * 100 + 7, nearly=february_31)
    inside = mv.protect(frame, "pca", seed=SEED)
    outside = protect_file(saved(frame, tmp_path, ending), tmp_path / f"out{ending}", "pca")
    assert outside.kinds == inside.kinds
    assert [inside.kinds[name] for name in ("day", "month", "july", "nearly")] == ["date", "date", "date", "count"]
    there, here = read(tmp_path / f"out{ending}"), inside.data
    for name in ("day", "month"):
        assert (there[name] == here[name]).all()
        assert ending == ".csv" or there[name].dtype == kind


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_an_identifier_with_missing_cells_is_one_there_too(tmp_path: Path, ending: str) -> None:
    frame = visits(12_000).select("record_id", "patient_id", "cost", "stay")
    gone = pl.Series(np.random.default_rng(1).random(12_000) < 0.3)
    frame = frame.with_columns(frame[name].set(gone, None) for name in ("record_id", "patient_id"))
    inside = mv.protect(frame, "pca", seed=SEED)
    outside = protect_file(saved(frame, tmp_path, ending), tmp_path / f"out{ending}", "pca")
    assert outside.kinds == inside.kinds
    assert (inside.kinds["record_id"], inside.kinds["patient_id"]) == ("identifier", "unit")
    for out in (inside.data, read(tmp_path / f"out{ending}")):
        assert out.columns == ["patient_id", "cost", "stay"]
        assert (out["patient_id"].is_null() == gone).all()
        assert not set(out["patient_id"].drop_nulls()) & set(frame["patient_id"].drop_nulls())


@pytest.mark.quick(".parquet-chosen", ".csv-default")
@pytest.mark.parametrize("options", [{}, {"confidential": ["cost", "stay"]}], ids=["default", "chosen"])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_identifiers_that_rows_share_are_numbered_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], ending: str
) -> None:
    monkeypatch.setattr(renumbering, "SHARE", 10_000)  # as if the memory were too small for all
    there = (pl.col("record_id") < 5_000) | (pl.col("cost") > 5)
    frame = visits().with_columns(pl.when(there).then("patient_id").alias("patient_id"))
    source, target = saved(frame, tmp_path, ending), tmp_path / f"out{ending}"
    release = protect_file(source, target, "ipso", **options)
    assert release.kinds["patient_id"] == "unit"
    assert "column 'patient_id' is numbered anew, in a random order: rows that shared a number still do" in (
        release.warnings
    )
    assert any("how many rows share a number of 'patient_id'" in said for said in release.warnings)
    new = read(target)["patient_id"]
    assert new.dtype == pl.Int64
    assert new.is_null().equals(frame["patient_id"].is_null())
    pairs = pl.DataFrame({"old": frame["patient_id"], "new": new}).drop_nulls().unique().sort("old")
    assert pairs["new"].sort().to_list() == list(range(1, frame["patient_id"].drop_nulls().n_unique() + 1))
    assert pairs["old"].is_unique().all()
    assert abs(np.corrcoef(np.arange(pairs.height), pairs["new"].to_numpy())[0, 1]) < 0.05  # in no order
    again = {}
    for seed in (SEED, SEED + 1):
        protect_file(source, target, "ipso", **{**options, "seed": seed})
        again[seed] = read(target)["patient_id"]
    assert again[SEED].equals(new)
    assert (again[SEED + 1] == new).mean() < 0.01


def further_down(first: Any, then: Any, at: int = 12_000) -> list[Any]:
    """A column that is another one after the rows that are looked at first; both are made of the row's number."""
    return [first(k) if k < at else then(k) for k in range(ROWS)]


FURTHER_DOWN: dict[str, list[Any]] = {
    "dates that stop": further_down(lambda k: f"2020-{k % 12 + 1:02}-01", lambda k: f"week {k % 9}"),
    "months that become days": further_down(lambda k: f"2020-{k % 12 + 1:02}-01", lambda k: f"2021-01-{k % 28 + 1:02}"),
    "either day or month first": further_down(
        lambda k: f"{k % 12 + 1:02}/02/2020", lambda k: f"{k % 12 + 1:02}/23/2020"
    ),
    "unique, then shared": further_down(lambda k: f"firm {k}", lambda k: f"firm {k % 3_000}"),
    "shared, then unique": further_down(lambda k: f"firm {k % 3}", lambda k: f"firm {k}"),
    "constant, then not": further_down(lambda _: "north", lambda k: f"region {k % 5}"),
    "missing, then not": further_down(lambda _: None, lambda k: f"region {k % 5}"),
    "counts the rows, then not": further_down(lambda k: k, lambda k: k * k % 977),
    "whole, then not": further_down(lambda k: float(k % 7), lambda k: k / 2),
    "not negative, then so": further_down(lambda k: k * k % 977, lambda k: -k),
    "constant number, then not": further_down(lambda _: 3, lambda k: k % 977),
    "short, then long": further_down(lambda k: f"{k % 5}", lambda k: f"a long story of {k} and of {k % 77}, and more"),
}


@pytest.mark.quick(".parquet-what-*", ".csv-person_id-*shared*", ".csv-person_id-*date*")
@pytest.mark.parametrize("case", FURTHER_DOWN)
@pytest.mark.parametrize("name", ["what", "person_id"])
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_what_is_found_further_down_counts(tmp_path: Path, case: str, name: str, ending: str) -> None:
    cells = pl.Series(name, FURTHER_DOWN[case])
    if ending == ".csv" and cells.dtype.is_float():
        pytest.skip("a number with decimals in the first bytes of a text file, which are more than the first rows")
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS), name: cells})
    source = saved(frame, tmp_path, ending)
    assert answer_in_memory(frame, keep="rest").kinds == answer_of_a_file(source, keep="rest").kinds
    one, other = (said(lambda: answer_in_memory(frame)), said(lambda: answer_of_a_file(source)))
    assert one == other


def said(answer: Callable[[], mv.Release]) -> Any:
    """What comes of a call: an error, or which columns are released, and how."""
    try:
        release = answer()
    except MicroveilError as error:
        return str(error)
    # Files have rows, not units.
    about_units = "unit: no column is the same", "rows went to another unit", "how many rows share a number"
    warnings = [warning for warning in release.warnings if not any(words in warning for words in about_units)]
    return sorted(release.dose), release.in_clear, release.kinds, warnings


def answer_in_memory(frame: pl.DataFrame, method: str = "ipso", **options: Any) -> mv.Release:
    return mv.protect(frame, method, seed=SEED, **options)


def answer_of_a_file(source: Path, method: str = "ipso", **options: Any) -> mv.Release:
    return protect_file(source, source.with_name(f"out{source.suffix}"), method, **options)


@pytest.mark.parametrize("buckets", [False, True])
def test_different_rows_and_unique_ones_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buckets: bool
) -> None:
    if buckets:
        monkeypatch.setattr(distinct, "COPIES", 10**6)  # as if a thousand entries were all that fits
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"a": rng.integers(0, 3_000, 20_000), "b": rng.choice([0.0, -0.0, 1.5, np.nan], 20_000)})
    with Shelf(tmp_path, 10**8) as shelf:
        counter = DistinctCounter(shelf, frame.height, 10**8)
        for part in frame.iter_slices(3_000):
            counter.add(part)
        assert bool(counter.buckets) is buckets
        found = counter.counts()
    times = frame.with_columns(pl.col("b") + 0.0).group_by("a", "b").len()["len"]
    assert found == (len(times), int((times == 1).sum()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_unique_rows_in_clear_are_counted(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(4)
    frame = visits().with_columns(region=pl.Series(rng.integers(0, 300, ROWS).astype(str)) + " r")
    options: dict[str, Any] = {
        "confidential": ["cost", "stay"],
        "keep": ["region"],
        "drop": ["birth", "visit", "seen_at"],
    }
    release = answer_of_a_file(saved(frame, tmp_path, ending), **options)
    inside = answer_in_memory(frame.drop("patient_id"), **options)
    assert 0 < release.unique_in_clear < 1
    assert release.unique_in_clear == inside.unique_in_clear
    assert release.in_clear == inside.in_clear == ("year", "age", "age_now", "region")
    assert "dropped, on request: birth, visit, seen_at" in release.warnings
    assert release.recipe()["drop"] == ["birth", "visit", "seen_at"]
    with pytest.warns(DisclosureWarning, match="released as they are: year, age, age_now, region"):
        answer_of_a_file(tmp_path / f"in{ending}", **options)


def test_what_pandas_notes_of_columns_that_are_left_out_stays_behind(tmp_path: Path) -> None:
    frame = visits(2_000).select("cost", "stay", "note").to_pandas()
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "in.parquet")
    answer_of_a_file(tmp_path / "in.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pandas().columns.to_list() == ["cost", "stay"]
    assert b"note" not in (tmp_path / "out.parquet").read_bytes()


def test_a_column_that_stops_being_numbers_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.io.files.csv.BEGINNING", 20_000)
    rows = [f"{k},{k % 7}.5,{k % 11}.25" for k in range(20_000)]
    (tmp_path / "in.csv").write_text("\n".join(["a,b,c", *rows, "unknown,1,1"]))
    with pytest.raises(DataError, match="column 'a' begins as numbers, but has cells further down"):
        answer_of_a_file(tmp_path / "in.csv")
    for options in ({"keep": "a"}, {"confidential": ["b", "c"]}):
        release = answer_of_a_file(tmp_path / "in.csv", **options)
        assert "a" in release.in_clear or release.kinds["a"] == "identifier"
    assert "a" not in read_header(answer_of_a_file(tmp_path / "in.csv", drop="a").data)


def test_whole_numbers_that_get_decimals_further_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.io.files.csv.BEGINNING", 20_000)
    rng = np.random.default_rng(9)
    frame = pl.DataFrame({name: rng.integers(0, 50, 9_000).astype(float) for name in ("a", "b", "person_id")})
    frame = pl.concat([frame[:8_000], frame[8_000:] + 0.5])
    text = frame.write_csv().replace(".0,", ",").replace(".0\n", "\n")
    (tmp_path / "in.csv").write_text(text)
    options: dict[str, Any] = {"confidential": ["a", "b"], "keep": ["person_id"]}
    release, inside = answer_of_a_file(tmp_path / "in.csv", **options), answer_in_memory(frame, **options)
    assert release.kinds == inside.kinds == dict.fromkeys(frame.columns, "amount")
    assert (release.unique_in_clear, release.rows) == (inside.unique_in_clear, 9_000)


def read_header(path: Path) -> list[str]:
    return path.read_text().splitlines()[0].split(",")


MINUTES = np.random.default_rng(7).integers(0, 10**6, 3_000).astype("timedelta64[m]")
STAMPS = pl.Series(np.datetime64("2020-01-01", "us") + MINUTES)
TYPES: dict[str, pl.Series] = {
    "a zone": STAMPS.dt.replace_time_zone("Europe/Berlin", ambiguous="earliest", non_existent="null").fill_null(
        strategy="forward"
    ),
    "nanoseconds": STAMPS.cast(pl.Datetime("ns")),
    "times of day": STAMPS.dt.time(),
    "times as text": STAMPS.dt.strftime("%H:%M"),
    "months": STAMPS.dt.date().dt.month_start(),
    "one day for all": pl.Series(["2020-01-31"] * 3_000).str.to_date(),
    "no day at all": pl.Series([None] * 3_000, dtype=pl.Date),
    "nothing": pl.Series([None] * 3_000, dtype=pl.Float64),
    "long numbers in clear": pl.Series([2**60 + k % 700 for k in range(3_000)]),
    "categorical": pl.Series([f"c {k % 7}" for k in range(3_000)]).cast(pl.Categorical),
    "lists of words": pl.Series([["a", "b"][: k % 3] for k in range(3_000)]),
}


@pytest.mark.parametrize("case", TYPES)
@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_types_come_back_as_from_memory(tmp_path: Path, case: str, ending: str) -> None:
    rng = np.random.default_rng(8)
    frame = pl.DataFrame({"a": rng.normal(size=3_000), "b": rng.normal(size=3_000), "t": TYPES[case]})
    if ending == ".csv" and frame.schema["t"].is_nested():
        pytest.skip("no lists in text files")
    clear = {"keep": ["t"]} if case in ("long numbers in clear", "categorical", "lists of words") else {}
    source = saved(frame, tmp_path, ending)
    release = answer_of_a_file(source, **clear)
    inside = mv.protect_file(source, tmp_path / f"inside{ending}", "ipso", engine="memory", seed=SEED, **clear)
    assert (release.kinds, release.in_clear) == (inside.kinds, inside.in_clear)
    assert release.unique_in_clear == inside.unique_in_clear
    one, other = read(tmp_path / f"out{ending}"), read(tmp_path / f"inside{ending}")
    assert one.equals(other)
    assert one.schema == other.schema
    assert ("t" in release.dose) is (release.kinds["t"] in ("date", "datetime", "time"))


def test_an_option_without_effect_is_told_there_too(tmp_path: Path) -> None:
    frame = visits(3_000).select("cost", "stay", "birth")
    release = answer_of_a_file(saved(frame, tmp_path, ".parquet"), drop_identifiers=True)
    assert sum("drop_identifiers has no effect" in said for said in release.warnings) == 1


def test_kinds_can_be_said_by_a_call_or_a_dictionary(tmp_path: Path) -> None:
    frame = visits(3_000).select("cost", "stay", "patient_id", "birth")
    source = saved(frame, tmp_path, ".parquet")
    for given in ({"kinds": {"patient_id": "count"}}, {"rules": {"columns": {"patient_id": {"kind": "count"}}}}):
        release = answer_of_a_file(source, **given)
        assert release.kinds["patient_id"] == "count"
        assert read(tmp_path / "out.parquet").equals(answer_in_memory(frame, **given).data)


# --- The same mistakes, the same answers


def firms(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(6)
    return pl.DataFrame(
        {
            "firm_id": [f"f{k}" for k in range(rows)],
            "region": rng.choice(["north", "south"], rows),
            "sales": rng.lognormal(size=rows),
            "costs": rng.lognormal(size=rows),
            "founded": pl.Series(np.datetime64("1990-01-01") + rng.integers(0, 9_000, rows)).cast(pl.Date),
        }
    )


NUMBERS = firms().drop("region")
MISTAKES: dict[str, tuple[pl.DataFrame, dict[str, Any], str]] = {
    "labels": (
        firms(),
        {},
        "ipso cannot protect labels, and column 'region' has some; use veil, ",
    ),
    "several": (firms().with_columns(kind=pl.col("region") + "!"), {}, "and columns 'region', 'kind' have some"),
    "labels by name": (firms(), {"confidential": ["region", "sales"]}, "cannot protect labels, and column 'region'"),
    "keep nobody": (NUMBERS, {"keep": ["frim_id"]}, "keep: there is no column 'frim_id'; did you mean 'firm_id'"),
    "drop nobody": (NUMBERS, {"drop": ["frim_id"]}, "drop: there is no column 'frim_id'; did you mean 'firm_id'"),
    "protect nobody": (NUMBERS, {"confidential": ["sale"]}, "confidential: there is no column 'sale'"),
    "keep what is protected": (
        NUMBERS,
        {"confidential": ["sales", "costs"], "keep": "sales"},
        "'sales' is named twice",
    ),
    "drop what is public": (NUMBERS, {"public": ["sales"], "drop": ["sales"]}, "public: there is no column 'sales'"),
    "drop what is protected": (
        NUMBERS,
        {"confidential": ["sales", "costs"], "drop": "sales"},
        "there is no column 'sales'",
    ),
    "a kind of none": (NUMBERS, {"kinds": {"sales": "money"}}, "kinds: 'sales' cannot be 'money'"),
    "no dates": (firms(), {"kinds": {"region": "date"}}, "kinds: column 'region' has no dates or times"),
    "no numbers": (firms(), {"kinds": {"region": "amount"}}, "kinds: column 'region' has no numbers"),
    "a weight of words": (firms(), {"weight": "region"}, "weight: column 'region' is not numeric"),
    "numbers as text": (
        NUMBERS.with_columns(pl.col("costs").round(2).cast(pl.String) + " EUR"),
        {},
        "column 'costs' is text, but most of its cells look like numbers",
    ),
    "numbers in lists": (
        NUMBERS.with_columns(pl.concat_list("costs", "sales").alias("both")),
        {},
        "column 'both' holds numbers, but its type is none that is protected",
    ),
    "nothing": (firms().select("firm_id"), {}, "confidential: there is no column to protect"),
    "what follows": (
        NUMBERS.with_columns(total=pl.col("sales") + pl.col("costs")),
        {"confidential": ["sales", "founded"]},
        "'sales' follows from 'costs', 'total', released as they are",
    ),
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    opened = session("local[2]", tmp_path_factory.mktemp("spark"))
    yield opened
    opened.stop()
    gc.collect()


def answer_of_spark(opened: Any, frame: pl.DataFrame, method: str = "ipso", **options: Any) -> mv.Release:
    cut = frame.height // 3
    parts = [opened.createDataFrame(part.to_arrow()).coalesce(1) for part in (frame[:cut], frame[cut:])]
    return mv.protect_spark(parts[0].union(parts[1]), method, seed=SEED, **options)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("engine", ["memory", "stream", pytest.param("spark", marks=pytest.mark.slow)])
def test_the_same_mistakes_have_the_same_answers(
    tmp_path: Path, request: pytest.FixtureRequest, mistake: str, engine: str
) -> None:
    frame, options, words = MISTAKES[mistake]
    ways: dict[str, Callable[[], mv.Release]] = {
        "memory": lambda: answer_in_memory(frame, **options),
        "stream": lambda: answer_of_a_file(saved(frame, tmp_path, ".parquet"), **options),
        "spark": lambda: answer_of_spark(request.getfixturevalue("spark"), frame, **options),
    }
    with pytest.raises(MicroveilError) as told:
        ways[engine]()
    assert words in str(told.value)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.slow
def test_on_spark_as_in_memory(spark: Any) -> None:
    frame = visits(12_000).with_columns(region=pl.Series([f"r {k % 7}" for k in range(12_000)]))
    release = answer_of_spark(spark, frame, keep=["region"])
    found = pl.DataFrame(pl.from_arrow(release.data.toArrow()))
    inside = answer_in_memory(frame.drop("patient_id"), keep=["region"])
    wanted = inside.data.with_columns(pl.col("seen_at").dt.replace_time_zone("UTC"))  # as Spark has them
    for name in wanted.columns:
        if wanted[name].dtype == pl.Float64:
            assert found[name].to_numpy() == pytest.approx(wanted[name].to_numpy(), rel=1e-9, abs=1e-9)
        else:
            assert found[name].equals(wanted[name]), name
    assert found.columns == ["patient_id", *wanted.columns]
    agrees(found.with_columns(pl.col("visit").str.to_date("%d.%m.%Y")))
    assert {name: kind for name, kind in release.kinds.items() if name != "patient_id"} == inside.kinds
    assert (release.in_clear, release.unique_in_clear, release.rules) == (("region",), 0.0, inside.rules)
    assert [said for said in release.warnings if "patient_id" not in said] == inside.warnings
    pairs = pl.DataFrame({"old": frame["patient_id"], "new": found["patient_id"]}).unique()
    assert pairs.height == pairs["new"].n_unique() == pairs["old"].n_unique()
    assert not set(pairs["new"]) & set(pairs["old"])
    release.close()


@pytest.mark.slow
def test_on_spark_rows_that_the_driver_has_in_two_partitions(spark: Any) -> None:
    """Arrow tables and pandas frames: Spark computes the number of their partition on the driver, one for all rows."""
    frame = firms(3_000).select(pl.col(pl.Float64))
    inside = answer_in_memory(frame)
    for held in (frame.to_arrow(), frame.to_pandas()):
        opened = spark.createDataFrame(held)
        assert opened.rdd.getNumPartitions() > 1
        release = mv.protect_spark(opened, "ipso", seed=SEED)
        found = pl.DataFrame(pl.from_arrow(release.data.toArrow()))
        for name in inside.data.columns:
            assert found[name].to_numpy() == pytest.approx(inside.data[name].to_numpy(), rel=1e-9, abs=1e-9), name
        release.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["dates that stop", "unique, then shared", "constant, then not", "counts the rows, then not"]
)
def test_on_spark_what_is_found_further_down_counts(spark: Any, case: str) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS), "what": FURTHER_DOWN[case]})
    assert said(lambda: answer_of_spark(spark, frame)) == said(lambda: answer_in_memory(frame))
