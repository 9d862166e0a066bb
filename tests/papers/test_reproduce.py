"""The papers' tables beside ours: the registry, the verdicts, and what is said where data are not there."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import census_12, tarragona

import microveil as mv
from microveil.cli.main import main
from microveil.core.errors import ParameterError
from microveil.papers import published_items, sources
from microveil.papers.calvino_factor import CORRELATIONS, claims_by_correlation
from microveil.papers.published import Found, Printed, PublishedItem, RunOptions, Tolerance, _tolerance
from microveil.papers.reproduce import reproduce
from microveil.papers.runs import measured
from microveil.papers.sources import ten_record_orders, ten_records
from microveil.papers.verdicts import Reproduction

ENTRIES = published_items()

PLACE = ("a", "figure")


def made_up(values: list[float], printed: Printed, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Reproduction:
    """An entry of one figure, of which we find these values."""
    entry = PublishedItem("made-up", "", "", "", "", [printed], lambda options: Found({PLACE: values}))
    monkeypatch.setitem(ENTRIES, "made-up", replace(entry, **options))
    return reproduce("made-up")


def without_data(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(sources, "reference_folders", lambda: [folder])


# --- The registry


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_every_entry_says_where_it_is_from_and_what_it_needs(entry: PublishedItem) -> None:
    assert all([entry.title, entry.paper, entry.place, entry.needs])
    assert entry.id == entry.id.lower()
    assert " " not in entry.id
    places = [(figure.row, figure.figure) for figure in entry.printed]
    assert places
    assert len(set(places)) == len(places)
    for figure in entry.printed:
        assert figure.tolerance.reason
        assert figure.value is None or math.isfinite(figure.value)
        assert figure.recomputed is None or figure.misprint


def test_the_tables_and_figures_of_the_papers_are_there() -> None:
    assert {f"calvino-table{number}" for number in range(1, 8)} <= set(reproduce())
    assert {f"hsu-chen-table{number}" for number in range(6, 11)} <= set(reproduce())
    assert {f"hsu-chen-fig{number}" for number in (5, 7, 8, 10)} <= set(reproduce())
    assert {f"calvino-factor-fig{number}" for number in range(2, 7)} <= set(reproduce())
    assert {"calvino-fig1", "dacquisto-table1", "dacquisto-fig4"} <= set(reproduce())


def test_misprints_are_named() -> None:
    assert [figure.figure for figure in ENTRIES["calvino-table2"].misprints] == ["cor XY"]


def test_fits_that_did_not_converge_are_no_misprints_and_are_told() -> None:
    """PS3 contains the terms of PS2: what is printed below it is no fit that converged."""
    assert not ENTRIES["calvino-table4"].misprints, (
        "the paper prints what it found, and nothing says what that should be"
    )
    table = {(figure.row, figure.figure): figure for figure in ENTRIES["calvino-table4"].printed}
    rows = dict.fromkeys(row for row, _ in table)
    impossible = {row for row in rows if table[row, "propensity_3"].value < table[row, "propensity_2"].value}
    assert impossible == {row for row, figure in table if "PS3 is below PS2" in table[row, figure].remark}
    assert impossible == {"rank swapping 0.2", "rank swapping 0.5", "rank swapping 1"}


def test_scores_of_table_4_are_the_means_of_their_printed_parts() -> None:
    """A slip in copying the table would show here."""
    table = {(figure.row, figure.figure): figure.value for figure in ENTRIES["calvino-table4"].printed}
    for row in dict.fromkeys(row for row, _ in table):
        rest = [table[row, name] for name in ("pil", "dbrl", "interval_disclosure")]
        for degree in (2, 3):
            mean = np.mean([table[row, f"propensity_{degree}"], *rest])
            # Rounding of four parts and of their mean; PS is printed as four times a rounded figure.
            assert abs(mean - table[row, f"score_{degree}"]) <= (3 * 0.00005 + 4 * 0.00005) / 4 + 0.00005 + 1e-9


@pytest.mark.parametrize("table", ["calvino-table4", "calvino-table7"])
def test_printed_intervals_are_around_the_printed_means(table: str) -> None:
    """A slip in copying would show here; so would one in naming the ends."""
    printed = {(figure.row, figure.figure): figure for figure in ENTRIES[table].printed}
    ends = [place for place in printed if place[1].endswith(", 2.5 %")]
    assert len(ends) == {"calvino-table4": 52, "calvino-table7": 14}[table]
    for row, low in ends:
        figure = low.removesuffix(", 2.5 %")
        low_end, mean, high_end = (printed[row, name] for name in (low, figure, f"{figure}, 97.5 %"))
        assert low_end.value < mean.value < high_end.value
        assert (low_end.percentile, mean.percentile, high_end.percentile) == (2.5, None, 97.5)


# --- Entries end to end


@pytest.mark.parametrize(
    ("table", "verdicts"),
    [
        ("calvino-table1", {"agrees": 51}),
        ("calvino-table2", {"agrees": 37, "not printed": 1, "misprint in the paper": 1}),
        ("calvino-table3", {"agrees": 78}),
    ],
)
def test_the_example_is_found_again(table: str, verdicts: dict[str, int]) -> None:
    found = reproduce(table)
    assert found.verdicts == verdicts
    assert all(line.ours is not None for line in found.lines)


def test_ours_are_releases_and_not_copies() -> None:
    release = mv.protect(ten_records(), "pca", components=2, permutations=ten_record_orders()[:, :2], rules=None)
    lines = {(line.row, line.figure): line for line in reproduce("calvino-table3").lines}
    line = lines["two: record 4", "Y"]
    assert line.ours == pytest.approx(release.data[3, 1], rel=1e-13)
    assert line.published == 38.58
    assert line.ours != line.published


def test_a_drawn_table_is_run_on_what_packages_carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_data(monkeypatch, tmp_path)
    monkeypatch.setattr("microveil.papers.hsu_chen.SETS", {"4 iris": iris, "11 census": sources.census})
    first, again = (reproduce("hsu-chen-table7", repeats=3, workers=1) for _ in range(2))
    assert first.to_dict() == again.to_dict()
    lines = {(line.row, line.figure): line for line in first.lines}
    assert lines["4 iris", "Pearson"].verdict == "agrees"  # covariances are exact in both
    assert lines["4 iris", "Spearman"].releases == 3
    assert lines["11 census", "Pearson"].verdict.startswith("not run: file CASCrefmicrodata.csv not found")
    assert lines["1 housing survey", "Pearson"].verdict.startswith("not run: no package")


def iris() -> Any:
    from sklearn.datasets import load_iris

    return load_iris().data


def test_measured_figures_are_those_of_a_study() -> None:
    data = np.random.default_rng(1).standard_normal((60, 3))
    options, methods = RunOptions(2, 5, 1, lambda *_: None), {"row": ("noise", {})}
    found = measured(options, data=data, methods=methods, measures={"PIL": "pil"}, scales={"PIL": 0.5})
    study = mv.compare(data, {"row": ("noise", {})}, measures=["pil"], repeats=2, seed=5, rules=None, workers=1)
    assert found.values["row", "PIL"] == pytest.approx(0.5 * study.values("row", "pil"), rel=1e-14)


@pytest.mark.slow
def test_census_is_one_draw_in_the_paper_and_near_the_spread_of_ours() -> None:
    census_12()
    for table in ("calvino-table5", "calvino-table6", "calvino-fig1"):
        assert set(reproduce(table, repeats=None if table == "calvino-fig1" else 10).verdicts) == {"agrees"}


@pytest.mark.study
def test_table_4_is_found_again() -> None:
    """Three standard errors of 351 lines: a few differ by luck, and those of rank swapping's PS3 do not."""
    tarragona()
    found = reproduce("calvino-table4")
    assert set(found.verdicts) == {"agrees", "differs"}
    differing = {(line.row, line.figure) for line in found.lines if line.verdict == "differs"}
    not_converged = {place for place in differing if place[0].startswith("rank") and "3" in place[1].partition(",")[0]}
    assert {(f"rank swapping {window}", "propensity_3") for window in ("0.2", "0.5", "1")} <= not_converged
    variance = {(f"pca {count}", "altered variance, %") for count in (5, 6)}
    assert variance <= differing
    assert len(differing - not_converged - variance) <= 10


@pytest.mark.slow
def test_table_7_is_found_again_but_for_the_clusters_of_54() -> None:
    census_12()
    found = reproduce("calvino-table7")
    differing = {(line.row, line.figure) for line in found.lines if line.verdict == "differs"}
    assert differing == {("MH 54", "DR")}


def test_what_a_text_says_of_curves_is_held_against_them() -> None:
    falling = np.linspace(0.4, 0.1, len(CORRELATIONS))[:, None] + np.array([-0.01, 0.0, 0.01])
    flat = np.full_like(falling, 0.5) + np.array([-0.01, 0.0, 0.01])
    near = falling - 0.005
    wide = flat + np.array([-0.05, 0.0, 0.05])
    claims = claims_by_correlation
    assert claims({"FA": falling, "PCA": flat, "M-AGG": wide}) == [True, True, True, True, False, True]
    assert claims({"FA": wide, "PCA": wide, "M-AGG": falling}) == [False, False, False, False, True, False]
    assert claims({"FA": falling, "PCA": near, "M-AGG": wide})[4]
    # Intervals of releases overlap, but the means of many are apart: that is not similar.
    many, less = (np.tile(curve, 30) for curve in (falling, falling - 0.008))
    assert not claims({"FA": many, "PCA": less, "M-AGG": np.tile(wide, 30)})[4]


# --- Verdicts


def test_a_difference_within_the_tolerance_agrees_and_beyond_it_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = Printed(*PLACE, 0.5, Tolerance("", 0.1))
    assert made_up([0.59], printed, monkeypatch).lines[0].verdict == "agrees"
    assert made_up([0.61], printed, monkeypatch).lines[0].verdict == "differs"
    (line,) = made_up([0.3, 0.5], printed, monkeypatch).lines
    assert (line.ours, line.releases) == (pytest.approx(0.4), 2)
    assert line.difference == pytest.approx(-0.1)
    assert line.spread == pytest.approx(np.std([0.3, 0.5], ddof=1))


def test_a_mean_may_be_off_by_its_digits_and_three_standard_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    tolerance = _tolerance({"decimals": 4, "mean_of": 100})
    for count, errors in ((5, math.sqrt(5)), (20, math.sqrt(20)), (400, 10.0)):
        values = np.random.default_rng(count).normal(0.5, 0.01, count)
        allowed = 3 * values.std(ddof=1) / errors + 0.00005
        for off, verdict in ((0.99, "agrees"), (1.01, "differs")):
            printed = Printed(*PLACE, values.mean() + off * allowed, tolerance)
            (line,) = made_up(values.tolist(), printed, monkeypatch).lines
            assert line.tolerance == pytest.approx(allowed)
            assert line.verdict == verdict
    # What is always 0 has no scatter: it does not pass for a small figure.
    assert made_up([0.0] * 20, Printed(*PLACE, 0.0012, tolerance), monkeypatch).lines[0].verdict == "differs"


def test_one_draw_of_the_paper_is_held_against_the_spread_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).standard_normal(2_000).tolist()
    tolerance = Tolerance("", one_draw=True)
    (line,) = made_up(values, Printed(*PLACE, 2.9, tolerance), monkeypatch).lines
    assert line.tolerance == pytest.approx(3 * np.std(values, ddof=1), rel=0.01)
    assert line.verdict == "agrees"
    assert made_up(values, Printed(*PLACE, 3.3, tolerance), monkeypatch).lines[0].verdict == "differs"


def test_an_end_of_an_interval_is_held_against_that_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).standard_normal(1_000).tolist()
    low = float(np.percentile(values, 2.5))
    # An order statistic has the standard error sqrt(p (1 - p) / n) / density; the difference of two, √2 times that.
    allowed = 3 * math.sqrt(2 * 0.025 * 0.975 / 1_000) / (math.exp(-(1.96**2) / 2) / math.sqrt(2 * math.pi))
    for off, verdict in ((0.9, "agrees"), (1.1, "differs")):
        printed = Printed(*PLACE, low + off * allowed, _tolerance({"percentile_of": 1_000}), percentile=2.5)
        (line,) = made_up(values, printed, monkeypatch).lines
        assert line.ours == pytest.approx(low)
        assert line.tolerance == pytest.approx(allowed * np.std(values, ddof=1), rel=0.05)
        assert line.verdict == verdict


def test_a_factor_holds_in_both_directions_and_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = Printed(*PLACE, 0.4, Tolerance("", factor=2.0))
    for ours, verdict in ((0.19, "differs"), (0.21, "same size"), (0.79, "same size"), (0.81, "differs")):
        assert made_up([ours], printed, monkeypatch).lines[0].verdict == verdict


def test_a_misprint_is_called_one_only_where_ours_is_what_it_ought_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = Printed(*PLACE, 0.1, Tolerance("", 0.01), "it was copied", 0.5)
    assert made_up([0.5], printed, monkeypatch).lines[0].verdict == "misprint in the paper: it was copied"
    assert made_up([0.1], printed, monkeypatch).lines[0].verdict == "differs"


# --- What cannot be run


@pytest.mark.parametrize("table", ["calvino-table4", "calvino-table7", "calvino-fig1"])
def test_without_reference_data_a_table_says_what_is_missing(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_data(monkeypatch, tmp_path)
    found = reproduce(table)
    assert list(found.verdicts) == ["not run"]
    for line in found.lines:
        assert line.ours is None
        assert line.published is not None
        assert "not found, set MICROVEIL_REFERENCE_DATA" in line.verdict


def test_the_named_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROVEIL_REFERENCE_DATA", str(tmp_path))
    (tmp_path / "Tarragona.csv").write_text("A,B\n1,2\n3,4\n1,2\n0,5\n", encoding="utf-8")
    assert sources.tarragona().tolist() == [[1, 2], [3, 4], [0, 5]]  # twins once, the order as it was


def test_a_table_in_which_nothing_is_drawn_is_made_once_and_says_so() -> None:
    found = reproduce("calvino-table1", repeats=4)
    assert found.verdicts == {"agrees": 51}
    assert "nothing is drawn for calvino-table1: it was made once" in found.notes
    assert found.to_dict()["notes"] == list(found.notes)
    assert reproduce("calvino-table1").notes == list(ENTRIES["calvino-table1"].notes)


@pytest.mark.parametrize(
    ("table", "options", "problem"),
    [
        ("calvino-table11", {}, "did you mean 'calvino-table1'"),
        ("calvino-table5", {"repeats": 1}, "at least 2"),
        ("calvino-table4", {"repeats": 1}, "at least 2"),
        ("hsu-chen-table6", {"repeats": 0}, "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(table: str, options: dict[str, int], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        reproduce(table, **options)


# --- How it is given back


def test_a_reproduction_as_frame_and_as_plain_data() -> None:
    found = reproduce("calvino-table2")
    frame = found.to_frame()
    assert frame.columns[:5] == ["row", "figure", "published", "ours", "difference"]
    assert len(frame) == len(found.lines)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["id"] == "calvino-table2"
    assert told["verdicts"] == found.verdicts
    assert told["misprints"][0]["figure"] == "cor XY"
    assert set(told["lines"][0]) >= {"row", "figure", "published", "ours", "difference", "verdict"}
    assert repr(found) == "<Reproduction of calvino-table2: 37 agrees, 1 not printed, 1 misprint in the paper>"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", *arguments])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), printed.out, printed.err


def test_the_command_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in ENTRIES)
    code, out, _ = run(capsys, "--json")
    assert [entry["id"] for entry in json.loads(out)["tables"]] == list(ENTRIES)


def test_the_command_shows_a_table_for_people_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "calvino-table2")
    assert code == 0
    assert "misprint in the paper" in out
    assert "39 figures: 37 agrees" in out
    code, out, _ = run(capsys, "calvino-table2", "--json")
    assert code == 0
    assert json.loads(out)["lines"][0]["verdict"] == "agrees"
    assert run(capsys, "calvino-table2", "--quiet") == (0, "", "")
    code, out, _ = run(capsys, "calvino-table1", "--repeats", "4")
    assert code == 0
    assert "Note: nothing is drawn for calvino-table1" in out


def test_the_exit_code_is_0_where_nothing_could_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_data(monkeypatch, tmp_path)
    code, out, _ = run(capsys, "calvino-table7", "--repeats", "2")
    assert code == 0
    assert "not run" in out


@pytest.mark.parametrize("arguments", [["calvino-table99"], ["calvino-table4", "--repeats", "1"], ["--repeats", "2"]])
def test_bad_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("microveil: ")
