"""`microveil table` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command import run

COUNTS = [[3, 11, 32, 30], [1, 9, 13, 8], [12, 22, 2, 2], [18, 19, 16, 3]]
HIDDEN = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3), (3, 4), (4, 1), (4, 4)]
TABLE = ("--dimensions", "row,col", "--value", "n")
RULE = (*TABLE, "--min-count", "4")


def written(path: Path, rows: list[list[Any]]) -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    rows = [[f"row{i + 1}", f"col{j + 1}", COUNTS[i][j]] for i in range(4) for j in range(4)]
    return written(tmp_path / "cells.csv", [["row", "col", "n"], *rows])


@pytest.fixture
def pattern(tmp_path: Path) -> Path:
    rows = [[f"row{i}", f"col{j}", "TRUE"] for i, j in HIDDEN]
    return written(tmp_path / "pattern.csv", [["row", "col", "suppressed"], *rows, ["row1", "col3", "FALSE"]])


@pytest.fixture
def records(tmp_path: Path) -> Path:
    rows = [[region, sector, firm, 10 + 7 * firm] for region in "AB" for sector in "xyz" for firm in range(6)]
    rows.append(["A", "x", 99, 5000])  # who dominates
    return written(tmp_path / "records.csv", [["region", "sector", "firm", "turnover"], *rows])


# --- suppress


def test_suppress_writes_no_hidden_value(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "table", "suppress", cells, "-o", out, *RULE)
    assert (code, err) == (0, "")
    assert "25 cells: 8 hidden, 5 of them for their own sake and 3 to protect them" in printed
    table = pl.read_csv(out)
    assert table.columns == ["row", "col", "n", "suppressed"]
    assert table["n"].dtype == pl.Int64
    assert table.filter(pl.col("suppressed"))["n"].null_count() == 8
    assert table.filter(~pl.col("suppressed"))["n"].null_count() == 0
    assert table.row(0) == ("Total", "Total", 201, False)


def test_suppress_writes_everything_if_asked_to(
    cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.parquet"
    code, printed, _ = run(capsys, "table", "suppress", cells, "-o", out, *RULE, "--with-values", "--json")
    assert code == 0
    told = json.loads(printed)
    assert (told["cells"], told["primary"], told["secondary"], told["suppressed"]) == (25, 5, 3, 8)
    assert told["written"] == [str(out)]
    table = pl.read_parquet(out)
    assert table.columns == ["row", "col", "n", "primary", "suppressed"]
    assert table.filter(pl.col("primary"))["n"].to_list() == [3, 1, 2, 2, 3]


def test_rules_for_amounts(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["table", "suppress", records, "--dimensions", "region,sector", "--value", "turnover"]
    who = ["--contributors", "firm"]
    for number, (rule, primary) in enumerate(
        [(["--dominance", "1:75"], 1), (["--p-percent", "10"], 1), (["--min-contributors", "7"], 5)]
    ):
        out = tmp_path / f"{number}.csv"
        code, printed, err = run(capsys, *asked, *who, *rule, "-o", out, "--with-values", "--json")
        assert (code, err) == (0, "")
        assert json.loads(printed)["primary"] >= primary
        found = pl.read_csv(out).filter(pl.col("primary") & (pl.col("region") == "A") & (pl.col("sector") == "x"))
        assert len(found) == (0 if "--min-contributors" in rule else 1)


def test_records_are_counted_without_a_value(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    code, _, err = run(
        capsys, "table", "suppress", records, "-o", out, "--dimensions", "region,sector", "--min-count", 2
    )
    assert (code, err) == (0, "")
    assert pl.read_csv(out).row(0) == ("Total", "Total", 37, False)


def test_codes_are_read_as_they_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[code, kind, 5 + place] for place, code in enumerate(("01", "02", "10")) for kind in "ab"]
    source = written(tmp_path / "codes.csv", [["region", "kind", "n"], *rows])
    out = tmp_path / "out.csv"
    assert run(capsys, "table", "suppress", source, "-o", out, "--dimensions", "region,kind", "--value", "n",
               "--min-count", 4)[0] == 0  # fmt: skip
    assert {line.split(",")[0] for line in out.read_text().splitlines()[1:]} == {"Total", "01", "02", "10"}


@pytest.mark.parametrize("form", ["toml", "json", "hrc"])
def test_hierarchies_from_a_file(form: str, cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = {"north": ["row1", "row2"], "south": ["row3", "row4"]}
    above = tmp_path / ("above.json" if form == "json" else "above.toml")
    if form == "hrc":  # named in the file, and beside it
        lines = [line for name, rows in tree.items() for line in (name, *(f"@{row}" for row in rows))]
        (tmp_path / "rows.hrc").write_text("\n".join(lines) + "\n")
        above.write_text('row = "rows.hrc"\n')
    else:
        toml = "[row]\n" + "".join(f"{name} = {json.dumps(rows)}\n" for name, rows in tree.items())
        above.write_text(json.dumps({"row": tree}) if form == "json" else toml)
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "table", "suppress", cells, "-o", out, *RULE, "--hierarchies", above)
    assert (code, err) == (0, "")
    assert "35 cells" in printed
    assert {"north", "south"} <= set(pl.read_csv(out)["row"])


def test_cells_that_are_to_be_shown(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pl.read_csv(cells)
    wanted = (pl.col("row") == "row1") & (pl.col("col") == "col2")
    source, out = tmp_path / "wanted.csv", tmp_path / "out.csv"
    table.with_columns(wish=pl.when(wanted).then(1000.0).otherwise(1.0)).write_csv(source)
    hidden = []
    for more in ([], ["--priority", "wish"]):
        assert run(capsys, "table", "suppress", source, "-o", out, *RULE, "--overwrite", *more)[0] == 0
        hidden.append(pl.read_csv(out).filter(wanted)["suppressed"].item())
    assert hidden == [True, False]


# --- fill


def test_fill_adds_up(cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    asked = ["table", "fill", cells, "-o", out, *TABLE, "--pattern", pattern, "--seed", 731_946_285]
    sums = ["--sum", "row1,col1 + row1,col2", "--sum", "row1,col1"]
    code, printed, err = run(capsys, *asked, *sums)
    assert (code, err) == (0, "")
    assert "row1,col1 + row1,col2 = 14 can be published" in printed
    assert "must not be published" in printed
    first = out.read_text()
    assert "731946285" not in first + printed
    table = pl.read_csv(out)
    inner = table.filter((pl.col("row") != "Total") & (pl.col("col") != "Total"))
    assert inner["n"].sum() == pytest.approx(201, abs=1e-9)
    for name, total in zip("1234", (76, 31, 38, 56), strict=True):
        assert inner.filter(pl.col("row") == f"row{name}")["n"].sum() == pytest.approx(total, abs=1e-9)
    assert int(table["suppressed"].sum()) == 9
    code, _, err = run(capsys, *asked, "--quiet")
    assert (code, "exists already" in err) == (2, True)
    assert run(capsys, *asked, "--quiet", "--overwrite") == (0, "", "")
    assert out.read_text() == first


def test_fitted_values_and_the_warning_of_modulo(
    cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    asked = ["table", "fill", cells, "-o", out, *TABLE, "--pattern", pattern, "--fitted"]
    code, printed, _ = run(capsys, *asked, "--modulo", 4, "--json")
    assert code == 0
    said = json.loads(printed)["warnings"]
    assert any("has not been studied thoroughly" in line for line in said)
    found = pl.read_csv(out).filter((pl.col("row") == "row2") & (pl.col("col") == "col1"))["n"].item()
    assert found == pytest.approx(0.8696, abs=5e-5)
    code, _, err = run(capsys, *asked, "--seed", 1, "--overwrite")
    assert code == 2
    assert "--fitted: there are no residuals" in err


def test_a_failed_suppression_is_not_filled(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[f"row{i}", f"col{j}", "true"] for i in (1, 2, 4) for j in (3, 4)]
    pattern = written(tmp_path / "p.csv", [["row", "col", "suppressed"], *rows, ["row3", "col2", "true"]])
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "table", "fill", cells, "-o", out, *TABLE, "--pattern", pattern, "--json")
    assert code == 1
    assert json.loads(printed)["determined"] == 1
    assert "(row=row3, col=col2)" in json.loads(printed)["warnings"][0]
    assert "hidden cells follow from the published ones; nothing was written" in err
    assert not out.exists()


def test_several_variables_are_filled_together(
    cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "two.csv", tmp_path / "out.csv"
    table = pl.read_csv(cells).with_columns(hours=pl.col("n") * 7 + pl.int_range(16))
    table.write_csv(source)
    asked = ["table", "fill", source, "-o", out, *TABLE, "--pattern", pattern, "--also", "hours", "--seed", 1]
    assert run(capsys, *asked, "--quiet") == (0, "", "")
    found = pl.read_csv(out)
    assert found.columns == ["row", "col", "n", "hours", "suppressed"]
    inner = found.filter((pl.col("row") != "Total") & (pl.col("col") != "Total"))
    for one, other in (("n", "n"), ("n", "hours"), ("hours", "hours")):
        product = (table[one] * table[other]).sum()
        assert (inner[one] * inner[other]).sum() == pytest.approx(product, rel=1e-10)
    assert run(capsys, *asked, "--also", "minutes")[0] == 2


# --- audit


def test_audit_of_a_good_table(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "intervals.csv"
    code, printed, err = run(capsys, "table", "audit", cells, *RULE, "-o", out)
    assert (code, err) == (0, "")
    assert "exactly determined: 0; nearly determined: 0" in printed
    found = {(line["row"], line["col"]): line for line in pl.read_csv(out).iter_rows(named=True)}
    assert len(found) == 8
    assert (found["row1", "col1"]["low"], found["row1", "col1"]["high"]) == (0, 4)


def test_audit_of_a_bad_table(cells: Path, pattern: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["table", "audit", cells, *TABLE, "--pattern", pattern, "--known", "row1,col1"]
    code, printed, err = run(capsys, *asked)
    assert code == 1
    assert "exactly determined: (row=row1, col=col2)" in printed
    assert "hidden cells that are exactly determined: 3" in err
    code, printed, _ = run(capsys, *asked, "--json")
    assert code == 1
    told = json.loads(printed)
    assert told["exactly_determined"] == len(told["named"]["exactly determined"]) == 3


def test_what_the_intruder_knows(cells: Path, pattern: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["table", "audit", cells, *TABLE, "--pattern", pattern, "--json"]
    assert run(capsys, *asked)[0] == 0
    assert run(capsys, *asked, "--within-percent", 0)[0] == 1
    assert json.loads(run(capsys, *asked, "--protection", 45)[1])["nearly_determined"] > 0
    assert run(capsys, *asked, "--at-most", 1)[0] == 2
    assert run(capsys, *asked, "--at-least", 2)[0] == 2
    assert run(capsys, *asked, "--at-least", 1)[0] == 0
    assert run(capsys, *asked, "--whole", "--allow-negative")[0] == 0


# --- Bad input: named, exit code 2, nothing written


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows[1].__setitem__(2, ""), "column 'n': missing in 1 rows (the first in row 1)"),
        (lambda rows: rows[1].__setitem__(2, -3), "1 counts are negative (the first in row 1)"),
        (lambda rows: rows[1].__setitem__(2, "few"), "column 'n' does not hold numbers"),
        (lambda rows: rows.append(rows[1]), "1 cells occur more than once (the first in row 1)"),
        (lambda rows: rows.append(["north", "col1", 5]), "1 sums are not those of their parts (the first in row 17)"),
        (lambda rows: rows[1].__setitem__(0, "row9"), "1 codes are not in its hierarchy (the first in row 1)"),
    ],
)
@pytest.mark.parametrize("command", ["suppress", "fill", "audit"])
def test_bad_tables(
    command: str, change: Any, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[list[Any]] = [[f"row{i + 1}", f"col{j + 1}", COUNTS[i][j]] for i in range(4) for j in range(4)]
    rows.insert(0, ["row", "col", "n"])
    change(rows)
    source = written(tmp_path / "cells.csv", rows)
    above = tmp_path / "above.toml"
    above.write_text('[row]\nnorth = ["row1", "row2"]\nsouth = ["row3", "row4"]\n')
    before = set(tmp_path.iterdir())
    out = ["-o", tmp_path / "out.csv", "--report", tmp_path / "report.html"]
    code, printed, err = run(capsys, "table", command, source, *RULE, "--hierarchies", above, *out)
    assert (code, printed) == (2, "")
    assert problem in err
    assert len(err.splitlines()) == 1
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (TABLE, "rules: say which cells are sensitive"),
        ((*TABLE, "--dominance", "75"), "'75' is not CONTRIBUTORS:PERCENT"),
        ((*TABLE, "--dominance", "0:75"), "Dominance: n"),
        ((*TABLE, "--min-count", "0"), "SmallCount: limit"),
        ((*TABLE, "--p-percent", "10"), "must know who contributed"),
        (("--dimensions", "row,cool", "--value", "n", "--min-count", 4), "dimensions: there is no column 'cool'"),
        (("--dimensions", "row,col", "--value", "m", "--min-count", 4), "value: there is no column 'm'"),
        ((*RULE, "--zeros", "maybe"), "zeros"),
        ((*RULE, "--hierarchies", "nowhere.toml"), "'nowhere.toml' cannot be read"),
    ],
)
def test_bad_options(
    options: tuple[Any, ...], problem: str, cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "table", "suppress", cells, "-o", out, *options)
    assert (code, printed) == (2, "")
    assert problem in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[row]\nnorth = [", "is not valid TOML"),
        ("[rows]\nnorth = ['row1']", "hierarchies: 'rows' is not among the dimensions"),
        ("[row]\nnorth = ['row1', 'row2']\nsouth = ['row2', 'row3', 'row4']", "code 'row2' lies below two others"),
        ("[row]\nnorth = ['row1', 'row2']", "2 codes are not in its hierarchy (the first in row 9)"),
    ],
)
def test_bad_hierarchies(
    content: str, problem: str, cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    above = tmp_path / "above.toml"
    above.write_text(content)
    out = tmp_path / "out.csv"
    code, printed, err = run(capsys, "table", "suppress", cells, "-o", out, *RULE, "--hierarchies", above)
    assert (code, printed) == (2, "")
    assert problem in err
    assert not out.exists()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([["row", "col"], ["row1", "col1"]], "pattern: there is no column 'suppressed'"),
        (
            [["row", "col", "suppressed"], ["row1", "col9", "true"]],
            "'col': 1 codes are not in its hierarchy",
        ),
        ([["row", "col", "suppressed"], ["row1", "col1", "perhaps"]], "holds neither true nor false"),
    ],
)
def test_bad_patterns(
    rows: list[list[str]], problem: str, cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = written(tmp_path / "pattern.csv", rows)
    code, printed, err = run(capsys, "table", "audit", cells, *TABLE, "--pattern", pattern)
    assert (code, printed) == (2, "")
    assert problem in err


def test_places_are_checked_first(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = cells.read_text()
    assert run(capsys, "table", "suppress", cells, "-o", cells, *RULE)[0] == 2
    out = tmp_path / "out.html"
    code, _, err = run(capsys, "table", "audit", cells, *RULE, "--report", tmp_path / "no" / "folder.html")
    assert code == 2
    assert "there is no folder" in err
    assert cells.read_text() == before
    assert not out.exists()


def test_no_file_that_is_read_is_overwritten(
    cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes, above = tmp_path / "codes.hrc", tmp_path / "above.json"
    codes.write_text("north\n@row1\n@row2\nsouth\n@row3\n@row4\n")
    above.write_text('{"row": "codes.hrc"}')
    kept = {path: path.read_text() for path in (codes, above, pattern)}
    asked = ["table", "audit", cells, *TABLE, "--pattern", pattern, "--hierarchies", above]
    for written_to in (["-o", pattern], ["--report", codes], ["--report", tmp_path / "above.html"]):
        code, _, err = run(capsys, *asked, *written_to)
        assert (code, "is one of the inputs" in err) == (2, True)
    assert {path: path.read_text() for path in kept} == kept


def test_a_published_table_is_a_pattern_and_no_source(
    cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    assert run(capsys, "table", "suppress", cells, "-o", out, *RULE, "--quiet")[0] == 0
    for command in (["audit"], ["fill", "-o", tmp_path / "filled.csv"]):
        code, _, err = run(capsys, "table", *command, out, *RULE)
        assert (code, "zero" in err) == (2, False)
        assert "is a published table: 8 of its cells are hidden" in err
        assert "--pattern" in err
    code, printed, _ = run(capsys, "table", "audit", cells, *TABLE, "--pattern", out)
    assert code == 0
    assert "25 cells: 8 hidden\n" in printed, "it does not say why"


def test_hints_name_options(cells: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", tmp_path / "out.csv"]
    assert "--min-count 4" in run(capsys, "table", "suppress", cells, *out, *TABLE)[2]
    assert "--contributors" in run(capsys, "table", "suppress", cells, *out, *TABLE, "--p-percent", 10)[2]
    assert "see `microveil table suppress --help`" in run(capsys, "table", "suppress", cells)[2]


def test_a_cell_with_a_line_end_in_it_is_refused(cells: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "table", "audit", cells, *RULE, "--known", "row1\rx,col1")
    assert (code, "is no cell" in err, len(err.splitlines())) == (2, True, 1)


def test_what_holds_hidden_values_is_for_its_owner_only(
    cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page, twin = tmp_path / "out.csv", tmp_path / "in.html", tmp_path / "in.json"
    reported = ["-o", out, "--report", page, "--overwrite"]
    secret = {
        ("suppress", *RULE): {page, twin},
        ("suppress", *RULE, "--with-values"): {out, page, twin},
        ("fill", *TABLE, "--pattern", pattern): {page, twin},
        ("audit", *RULE): {out, page, twin},
    }
    for (command, *options), private in secret.items():
        for path in (out, page, twin):
            path.write_text("old, for all to read")
            path.chmod(0o644)
        code, printed, _ = run(capsys, "table", command, cells, *options, *reported, "--json")
        assert code == 0
        assert json.loads(printed)["written"] == [str(path) for path in (out, page, twin)]
        assert {path for path in (out, page, twin) if path.stat().st_mode & 0o777 == 0o600} == private
    assert "They hold the hidden values" in " ".join(run(capsys, "table", "suppress", "--help")[1].split())


def test_a_pattern_takes_no_rules(cells: Path, pattern: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "table", "audit", cells, *RULE, "--pattern", pattern)
    assert code == 2
    assert "--pattern: the file says what is hidden" in err


# --- The report


@pytest.mark.parametrize("command", ["suppress", "fill", "audit"])
def test_reports_and_their_twins(
    command: str, cells: Path, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, twin = tmp_path / "report.html", tmp_path / "report.json"
    decided = ["--min-count", 4] if command == "suppress" else ["--pattern", pattern]
    out = [] if command == "audit" else ["-o", tmp_path / "out.csv"]
    code, _, err = run(capsys, "table", command, cells, *TABLE, *decided, *out, "--report", page)
    assert (code, err) == (0, "")
    text, told = page.read_text(), json.loads(twin.read_text())
    assert "Keep this file inside" in text
    assert "http" not in text
    assert "<script" not in text
    assert told["table"]["counts"]["cells"] == len(told["table"]["cells"]) == 25
    first = next(cell for cell in told["table"]["cells"] if cell["codes"] == ["row1", "col1"])
    assert ("filled" in first) == (command == "fill")
    assert ("verdict" in first) == (command == "audit")
    assert ("<svg" in text) == (command == "audit")
    assert 'scope="row"' in text
    assert '<span class="spoken">hidden' in text
