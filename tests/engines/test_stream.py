"""Files that go through in blocks: the same release as from memory, to the last bit, and nothing left behind."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import microveil as mv
from microveil.core import shuffle
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.engines import stream
from microveil.engines.out_of_core import check_eligible
from microveil.io.files import csv as csv_blocks
from microveil.io.tables import read_table, write_table
from microveil.methods import METHODS
from microveil.workflow.protecting import protect_file as protect_new_file

protect_file = partial(protect_new_file, overwrite=True, engine="stream")

ROWS = 70_000  # more than one block of rows that share a generator
SEED = 5

NEEDED: dict[str, dict[str, Any]] = {
    "correct": {"other": "other.csv"},
    "synthetic_addition": {"other": "other.csv"},
    "recode": {"top": {"sales": 9}},
}
OPEN = [name for name, method in METHODS.items() if "perturb" not in method.fixed]
CASES = [(name, NEEDED.get(name, {})) for name in METHODS] + [
    (name, {"perturb": other}) for name in OPEN for other in METHODS[name].perturbations
]


def survey(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """A table with what files have: text, whole numbers, single precision, a total, a constant, a far offset."""
    rng = np.random.default_rng(seed)
    sales, costs = rng.lognormal(2, 0.6, rows), rng.lognormal(1, 0.5, rows)
    staff = rng.poisson(4 + sales / 4)
    return pl.DataFrame(
        {
            "firm": [f"firm {number}" for number in range(rows)],
            "size": rng.normal(size=rows) + np.log(sales),
            "sales": sales,
            "costs": costs + 0.3 * sales,
            "total": sales + (costs + 0.3 * sales),
            "staff": staff,
            "far": 1e6 + rng.normal(size=rows) + sales,
            "single": (costs * rng.lognormal(0, 0.2, rows)).astype(np.float32),
            "flat": np.full(rows, 2.5),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    survey().write_parquet(folder / "in.parquet", row_group_size=30_000)
    return folder


def eligible(name: str, parameters: dict[str, Any]) -> bool:
    plan = METHODS[name].plan(parameters)
    try:
        check_eligible(plan, "stream")
    except ParameterError as refusal:
        return "engine='memory'" not in str(refusal)
    return True


@pytest.mark.quick("pca-parameters0", "primp-*", "ipso-*", "noise-*", "factor-parameters1")
@pytest.mark.parametrize(("name", "parameters"), [case for case in CASES if eligible(*case)])
def test_a_file_in_blocks_is_protected_as_in_memory(files: Path, name: str, parameters: dict[str, Any]) -> None:
    options = {"rules": None, "seed": SEED, "confidential": ["sales", "costs", "far", "staff", "single"], **parameters}
    if name == "factor":
        options |= {"scores": "regression"}
    inside = mv.protect(survey(), name, **options)
    release = protect_file(files / "in.parquet", files / "out.parquet", name, memory="100MB", **options)
    assert pl.read_parquet(files / "out.parquet").equals(inside.data)
    assert release.kept == pytest.approx(inside.kept, rel=1e-3, abs=1e-15)
    assert release.warnings == inside.warnings
    assert release.in_clear == inside.in_clear == ("size", "total")
    assert (release.kinds, release.unique_in_clear) == (inside.kinds, inside.unique_in_clear)
    assert release.components.to_rows() == inside.components.to_rows()


MANNERS = {
    "plain": {},
    "german": {"separator": ";", "decimal_comma": True},
    "tabs": {"separator": "\t"},
    "windows": {"line_terminator": "\r\n", "include_bom": True},
}


@pytest.mark.quick("ipso-german", "pca-windows")
@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
@pytest.mark.parametrize("method", ["ipso", "pca"])
def test_csv_goes_through_in_its_own_manner(tmp_path: Path, manner: dict[str, Any], method: str) -> None:
    data = survey(30_000).with_columns(note=pl.Series(['says "no", or\nnothing', "", "=1+1"] * 10_000))
    data.write_csv(tmp_path / "in.csv", **manner)
    options = {"confidential": ["sales", "costs", "staff"], "public": ["size"], "seed": SEED}
    frame, read = read_table(tmp_path / "in.csv")
    write_table(mv.protect(frame, method, **options).data, tmp_path / "inside.csv", read)
    release = protect_file(tmp_path / "in.csv", tmp_path / "out.csv", method, memory="100MB", **options)
    assert release.rows == 30_000
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "inside.csv").read_bytes()


def test_cells_far_down_that_are_no_numbers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BEGINNING", 20_000)
    lines = ["a,b", *(f"{number},{number % 7}.5" for number in range(50_000)), "secret,1"]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="column 'a' begins as numbers") as told:
        protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "ipso")
    assert "secret" not in str(told.value)
    (tmp_path / "in.csv").write_text("\n".join([*lines[:-1], "1,2,3"]))
    with pytest.raises(FileError, match="another number of cells after row"):
        protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "ipso")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("length", range(200, 216))
def test_cells_may_have_two_lines_wherever_the_beginning_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(csv_blocks, "BEGINNING", length)
    rows = "".join(f'{number},{number % 7}.5,"two\nlines, ""{number}"""\n' for number in range(60))
    (tmp_path / "in.csv").write_text(f"a,b,text\n{rows}")
    options: dict[str, Any] = {"confidential": ["a", "b"], "keep": ["text"], "seed": SEED}
    release = protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "ipso", **options)
    assert release.rows == 60
    assert pl.read_csv(tmp_path / "out.csv")["text"].to_list() == [f'two\nlines, "{number}"' for number in range(60)]


def test_letters_far_down_that_are_no_utf_8_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_blocks, "BEGINNING", 2_000)
    rows = b"".join(b"%d,%d.5,word\n" % (number, number % 7) for number in range(3_000))
    (tmp_path / "in.csv").write_bytes(b"a,b,text\n" + rows + b"1,2,\xff\xfe\n")
    with pytest.raises(FileError, match="is not UTF-8 after row"):
        protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "ipso", confidential=["a", "b"])


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes("größe,b\n1,2\n3,5\n4,4\n".encode("cp1252"))
    with pytest.raises(FileError, match="only UTF-8"):
        protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "ipso")


def test_some_methods_need_all_rows() -> None:
    refused = {name for name, parameters in CASES if "perturb" not in parameters and not eligible(name, parameters)}
    assert {"microaggregate", "shuffle", "microhybrid", "score_mix", "component_removal"} <= refused
    assert not refused & {"veil", "pca", "ipso", "romm", "primp", "primp_cholesky", "cholesky", "normal", "noise"}


@pytest.mark.parametrize("method", ["ipso", "pca"])
@pytest.mark.parametrize("public", [None, ["size"]])
def test_sums_constants_and_public_columns(files: Path, method: str, public: list[str] | None) -> None:
    data = survey()
    options: dict[str, Any] = {"public": public, "keep": ["firm"], "seed": SEED}
    inside = mv.protect(data, method, **options)
    release = protect_file(files / "in.parquet", files / "out.parquet", method, **options)
    found = pl.read_parquet(files / "out.parquet")
    assert found.equals(inside.data)
    assert found.schema == inside.data.schema
    assert release.rules == inside.rules
    assert "total = sales + costs" in release.rules
    assert release.warnings == inside.warnings
    assert release.in_clear == inside.in_clear
    assert release.dose == {name: pytest.approx(dose, abs=1e-9) for name, dose in inside.dose.items()} or all(
        release.dose[name].achieved == pytest.approx(dose.achieved, abs=1e-9) for name, dose in inside.dose.items()
    )
    assert release.data == files / "out.parquet"
    assert release.rows == data.height


@pytest.mark.quick("public0")
@pytest.mark.parametrize("public", [["region"], ["size", "region", "kind"], "~ region + size"])
def test_labels_are_regressed_on(tmp_path: Path, public: Any) -> None:
    rng = np.random.default_rng(4)
    data = (
        survey(20_000)
        .drop("total")
        .with_columns(
            region=pl.Series(rng.choice(["north", "east", "west"], 20_000)),
            kind=pl.Series(rng.choice(["b", "a"], 20_000)),
        )
    )
    data.write_parquet(tmp_path / "in.parquet", row_group_size=3_000)
    options: dict[str, Any] = {"public": public, "keep": "rest", "seed": SEED}
    inside = mv.protect(data, "ipso", **options)
    protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", **options)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(inside.data)


def test_a_label_of_one_record_is_refused(tmp_path: Path) -> None:
    region = pl.Series(["north"] * 4_999 + ["moon"])
    survey(5_000).with_columns(region=region).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(DataError, match="1 labels of column 'region' have fewer than 10 rows"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", public=["region"], keep=["firm"])


@pytest.mark.parametrize("method", ["ipso", "pca"])
def test_weights_keep_weighted_moments(tmp_path: Path, method: str) -> None:
    data = survey().with_columns(weight=pl.Series(np.random.default_rng(3).uniform(1, 9, ROWS)))
    data.write_parquet(tmp_path / "in.parquet")
    options: dict[str, Any] = {"confidential": ["sales", "costs", "far"], "weight": "weight", "seed": SEED}
    inside = mv.protect(data, method, **options)
    protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method, **options)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(inside.data)


@pytest.mark.parametrize("method", ["ipso", "pca", "romm"])
def test_neither_batches_nor_threads_nor_row_groups_change_a_bit(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = survey(140_000).drop("firm")
    found = []
    for groups, memory, threads in ((140_000, "2GB", "1"), (9_999, "100MB", "2"), (50_000, "100MB", "3")):
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        data.write_parquet(tmp_path / "in.parquet", row_group_size=groups)
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method, seed=SEED, memory=memory)
        found.append(pl.read_parquet(tmp_path / "out.parquet"))
    assert all(other.equals(found[0]) for other in found[1:])


@pytest.mark.parametrize("batch", [65_536, 3 * 65_536])
def test_the_shuffle_on_a_disk_is_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    for module in (shuffle, stream):
        monkeypatch.setattr(module, "SMALL", 1_000)
    monkeypatch.setattr(shuffle, "ROWS_PER_BUCKET", 4_096)
    monkeypatch.setattr(
        stream.DiskTable,
        "batches",
        lambda self, _: (slice(s, min(s + batch, self.count)) for s in range(0, self.count, batch)),
    )
    data = survey(300_000)
    inside = mv.protect(data, "pca", confidential=["sales", "costs", "far"], seed=SEED)
    data.write_parquet(tmp_path / "in.parquet")
    protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", "pca", confidential=["sales", "costs", "far"], seed=SEED
    )
    assert pl.read_parquet(tmp_path / "out.parquet").equals(inside.data)


@pytest.mark.slow
@pytest.mark.parametrize("marginals", ["original", "smoothed", "stratified"])
def test_columns_get_their_distributions_back_as_in_memory(files: Path, marginals: str) -> None:
    options: dict[str, Any] = {"marginals": marginals, "exchange": False, "keep": ["firm"], "rules": None, "seed": SEED}
    inside = mv.protect(survey(), "primp", **options)
    release = protect_file(files / "in.parquet", files / "out.parquet", "primp", **options)
    assert pl.read_parquet(files / "out.parquet").equals(inside.data)
    assert set(release.kept) == set(inside.kept)


@pytest.mark.parametrize("marginals", ["original", "smoothed"])
def test_columns_that_are_too_long_to_be_sorted_are_mapped_with_a_stated_error(
    files: Path, monkeypatch: pytest.MonkeyPatch, marginals: str
) -> None:
    monkeypatch.setattr(stream, "COPIES", 100_000_000 // 8 // 20_000)  # as if 20,000 rows were all that fits
    names = ["single", "far", "staff"]
    options: dict[str, Any] = {"confidential": names, "rules": None, "seed": SEED, "memory": "100MB"}
    release = protect_file(
        files / "in.parquet", files / "out.parquet", "pca", marginals=marginals, exchange=False, **options
    )
    (said,) = [said for said in release.warnings if "samples of about 10000 rows" in said]
    stated = float(re.findall(r"at most (\S+) ", said)[0])
    data, found = survey(), pl.read_parquet(files / "out.parquet")
    for name in names:
        levels = np.unique(data[name].to_numpy())
        before, after = (np.searchsorted(np.sort(frame[name].to_numpy()), levels, "right") for frame in (data, found))
        assert np.abs(before - after).max() / data.height < stated
        assert marginals != "original" or np.isin(found[name].to_numpy(), levels).all()


@pytest.mark.quick("1000000.0-*")
@pytest.mark.parametrize("method", ["ipso", "pca"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_are_exact_far_from_zero_too(tmp_path: Path, method: str, offset: float) -> None:
    rng = np.random.default_rng(8)
    values = rng.standard_normal((200_000, 5)) @ rng.standard_normal((5, 5))
    values = values / values.std(axis=0) + offset
    pl.DataFrame(values, schema=[f"c{j}" for j in range(5)]).write_parquet(tmp_path / "in.parquet")
    release = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", method, seed=SEED)
    assert max(release.kept["mean"], release.kept["covariance"]) < 1e-9
    # Measured by others than the engine: in extended precision, off the original means.
    new = pl.read_parquet(tmp_path / "out.parquet").to_numpy().astype(np.longdouble)
    old = values.astype(np.longdouble)
    middle = old.mean(axis=0)
    assert np.abs(new.mean(axis=0) - middle).max() < 1e-9
    gap = (new - middle).T @ (new - middle) - (old - middle).T @ (old - middle)
    assert np.abs(gap).max() / len(old) < 1e-9


def test_the_order_and_types_of_the_columns_come_back(tmp_path: Path) -> None:
    table = survey(5_000).to_arrow()
    pq.write_table(table, tmp_path / "in.parquet", compression="gzip")
    options: dict[str, Any] = {"confidential": ["far", "single", "staff"], "keep": ["firm"]}
    protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", **options)
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names == table.column_names
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.row_group(0).column(0).compression == "GZIP"
    changed = {"staff": pa.float64()}
    assert [field.type for field in found.schema] == [changed.get(field.name, field.type) for field in table.schema]
    kept = [name for name in table.column_names if name not in ("far", "single", "staff")]
    assert found.select(kept).equals(table.select(kept))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sales": [1.0, None, 3.0, 4.0]}, "column 'sales' has missing cells"),
        ({"sales": [1.0, float("nan"), 3.0, 4.0]}, "column 'sales' has missing cells"),
        ({"sales": [1.0, float("inf"), 3.0, 4.0]}, "column 'sales' has 50 infinite cells"),
        ({"sales": [2.0, 2.0, 2.0, 2.0], "costs": [1.0, 1.0, 1.0, 1.0]}, "every column is constant"),
        ({"sales": [1e200, 2.0, 3.0, 4.0]}, "too large or too small in its unit"),
        ({"sales": ["1,5", "2,5", "3,5", "4,5"]}, "is text, but most of its cells look like numbers"),
    ],
)
def test_bad_cells_are_named_and_nothing_is_written(tmp_path: Path, change: dict[str, list[Any]], words: str) -> None:
    data = {"sales": [1.0, 2.0, 5.0, 4.0] * 50, "costs": [4.0, 1.0, 7.0, 3.0] * 50}
    pl.DataFrame({**data, **{name: cells * 50 for name, cells in change.items()}}).write_parquet(
        tmp_path / "in.parquet"
    )
    with pytest.raises(DataError, match=re.escape(words)):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_special_codes_are_refused_and_can_be_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    sales = np.where(rng.uniform(size=5_000) < 0.05, -9.0, rng.lognormal(2, 0.5, 5_000))
    pl.DataFrame({"sales": sales, "costs": rng.lognormal(size=5_000)}).write_parquet(tmp_path / "in.parquet")
    with pytest.raises(DataError, match="'sales': -9 looks like a code"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso")
    assert protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", rules=None).kept["mean"] < 1e-9


def test_a_code_in_three_rows_of_many_is_found_as_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(rng.lognormal(size=(300_000, 3)), schema=["sales", "costs", "size"])
    rare = pl.int_range(pl.len()).is_in([100_001, 100_007, 230_000])
    coded = frame.with_columns(costs=pl.when(rare).then(999998.0).otherwise("costs"))
    coded.write_parquet(tmp_path / "in.parquet")
    with pytest.raises(DataError, match="'costs': 999998 looks like a code"):
        protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso")
    roles = {"confidential": ["sales", "size"], "public": ["costs"], "seed": SEED}
    release = protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", **roles)
    assert release.warnings == mv.protect(coded, "ipso", **roles).warnings
    assert "released as they are: costs" in release.warnings
    assert any("public column 'costs': 999998 looks like a code" in said for said in release.warnings)


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_amounts_as_text_far_down_are_refused_as_in_memory(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(2)
    words = ["none"] * 12_000 + [f"{amount:.2f}" for amount in rng.lognormal(size=20_000)]
    frame = pl.DataFrame({"a": rng.normal(size=32_000), "b": rng.normal(size=32_000), "paid": words})
    frame = frame.with_columns(paid=pl.col("paid") + " EUR")
    source, target = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    frame.write_parquet(source) if ending == ".parquet" else frame.write_csv(source)
    with pytest.raises(DataError, match="'paid' is text, but most of its cells look like numbers"):
        mv.protect(frame, "ipso")
    with pytest.raises(DataError, match="'paid' is text, but most of its cells look like numbers"):
        protect_file(source, target, "ipso")
    with pytest.raises(DataError, match="'paid' is text, but most of its cells look like numbers"):
        mv.protect(frame, "ipso", keep="rest")
    with pytest.raises(DataError, match="'paid' is text, but most of its cells look like numbers"):
        protect_file(source, target, "ipso", keep="rest")
    assert not target.exists()
    assert protect_file(source, target, "ipso", keep=["paid"]).in_clear == ("paid",)
    assert protect_file(source, target, "ipso", confidential=["a", "b"]).rows == 32_000


def test_notes_on_a_file_stay_behind(tmp_path: Path) -> None:
    """Whoever made it may have noted what is in it; what pandas notes is how its index is called."""
    rng = np.random.default_rng(2)
    table = pa.Table.from_pandas(pl.DataFrame(rng.normal(size=(50, 2)), schema=["a", "b"]).to_pandas())
    noted = table.replace_schema_metadata({**table.schema.metadata, b"lineage": b"row 3 is 86420.97531"})
    pq.write_table(noted, tmp_path / "in.parquet")
    protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "ipso", seed=SEED)
    assert b"86420" not in (tmp_path / "out.parquet").read_bytes()
    assert b"pandas" in pq.read_schema(tmp_path / "out.parquet").metadata


def test_a_dictionary_can_declare_sums(files: Path) -> None:
    sums = {"sums": [{"total": "total", "parts": ["sales", "costs"]}]}
    release = protect_file(files / "in.parquet", files / "out.parquet", "ipso", rules=sums, keep=["firm"], seed=SEED)
    assert "total = sales + costs" in release.rules
    with pytest.raises(DataError, match="not the sum of its parts"):
        protect_file(
            files / "in.parquet",
            files / "no.parquet",
            "ipso",
            rules={"sums": [{"total": "total", "parts": ["sales", "far"]}]},
            keep=["firm"],
        )
    rules = {"columns": {"sales": {"minimum": 0.0}}}
    with pytest.raises(ParameterError, match="can declare sums only"):
        protect_file(files / "in.parquet", files / "no.parquet", "ipso", rules=rules, keep=["firm"])
    assert not (files / "no.parquet").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "veil", "exact": "rounded"}, "cannot run veil"),
        ({"method": "pca", "perturb": "microaggregate"}, "needs all values of a component at once"),
        ({"method": "normal"}, "in whole columns; use rules='none' (--rules none), or engine='memory'"),
        ({"method": "noise"}, "in whole columns; use rules='none' (--rules none), exact=True (--set exact=true), or"),
        ({"method": "score_mix"}, "score_mix: it needs all values of a component at once for perturb='score_mix';"),
        ({"method": "ipso", "public": "~ size * far"}, "products of columns"),
        ({"method": "ipso", "memory": "10MB"}, "at least 100MB"),
        ({"method": "ipso", "memory": "much"}, "at least 100MB"),
    ],
)
def test_what_cannot_be_done_in_blocks_is_said(files: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(words)):
        protect_file(files / "in.parquet", files / "no.parquet", keep=["firm"], **options)
    assert not (files / "no.parquet").exists()


def test_what_would_be_in_clear_is_named_by_whoever_protects(files: Path) -> None:
    source, target = files / "in.parquet", files / "no.parquet"
    with pytest.raises(ParameterError, match="keep: there is no column 'frim'; did you mean 'firm'"):
        protect_file(source, target, "ipso", keep=["frim"])
    assert not target.exists()
    for keep, clear in ((None, ()), (["firm", "size"], ("firm", "size")), ("rest", ("firm",))):
        release = protect_file(source, files / "out.parquet", "ipso", keep=keep, seed=SEED)
        assert release.in_clear == clear
        assert [said for said in release.warnings if "released as they are" in said] == (
            [f"released as they are: {', '.join(clear)}"] if clear else []
        )
        assert release.unique_in_clear == (1.0 if clear else 0.0)
        found = pl.read_parquet(files / "out.parquet")
        assert [name for name in found.columns if found[name].equals(survey()[name])] == [*release.in_clear, "flat"]


def test_files_of_other_kinds_are_refused(files: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="not of the kind"):
        protect_file(files / "in.parquet", tmp_path / "out.csv", "ipso")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more of it")
    with pytest.raises(FileError, match="not a Parquet file, or is damaged"):
        protect_file(tmp_path / "broken.parquet", tmp_path / "out.parquet", "ipso")
    with pytest.raises(FileError, match="no such file"):
        protect_file(tmp_path / "missing.parquet", tmp_path / "out.parquet", "ipso")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.parquet"]


def test_the_report_shows_a_sample(files: Path, tmp_path: Path) -> None:
    release = protect_file(files / "in.parquet", files / "out.parquet", "ipso", keep=["firm"], seed=SEED)
    assert release.sample is not None
    before, after = release.sample
    assert before.height == after.height <= 10_000
    released = pl.read_parquet(files / "out.parquet")
    assert after.join(released.select(after.columns), on=after.columns, how="anti").is_empty()
    release.report(tmp_path / "report.html")
    assert "covariance" in (tmp_path / "report.html").read_text()
