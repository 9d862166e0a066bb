"""The commands as a user runs them."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.cli.commands import GROUPS, app_for

SEED = 918273645546372819


@pytest.fixture
def survey() -> Path:
    return mv.example_file()


@pytest.fixture
def few(survey: Path, tmp_path: Path) -> Path:
    """The first records of the survey, where their number plays no part."""
    source = tmp_path / "few.csv"
    source.write_text("".join(survey.read_text().splitlines(keepends=True)[:121]))
    return source


@pytest.mark.usefixtures("all_exchanges")
def test_protect_writes_a_table_of_the_same_shape_and_says_what_was_kept(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    code, printed, err = run(capsys, "protect", survey, "-o", out, "--weight", "weight")
    assert (code, err) == (0, "")
    assert "Kept exactly: linear rules" in printed
    closely = re.search(r"Kept closely: weighted means \(to (.*?)\), weighted covariances \(to (.*?)\), rank", printed)
    assert closely is not None
    # Weights fall with the size of the firms, so that a large firm in the wrong place would show at once.
    assert max(map(float, closely.groups())) <= 0.25
    assert "holds in every row: turnover_total = turnover_domestic + turnover_export" in printed
    assert printed.startswith("In clear: weight\n"), "the first line of all"
    assert printed.count("In clear: weight\n") == printed.count("Note: released as they are: weight\n") == 1
    linked = r"Risk: 100\.0 % .* before, \d+\.\d\d % after .*chance 0\.08 %"
    assert re.search(linked, printed)
    before, after = pl.read_csv(survey), pl.read_csv(out)
    assert after.schema == before.schema, "whole numbers stay whole"
    assert after.height == before.height
    assert after["weight"].equals(before["weight"])
    for labels in ("region", "industry"):
        assert after[labels].sort().equals(before[labels].sort()), "each label as often as before"
        assert (after[labels] == before[labels]).mean() < 0.5, "but not where it was"
    # Gaps went to other firms of the same weight.
    for gap in (pl.col("investment").is_null(), pl.col("energy_cost").is_null(), pl.col("rd_spending") == -9):
        old, new = (frame.filter(gap)["weight"] for frame in (before, after))
        assert not new.equals(old)
        assert new.sort().equals(old.sort())
    assert (after["turnover_domestic"] + after["turnover_export"] == after["turnover_total"]).all()
    weight = before["weight"].to_numpy()
    for column in (column for column in before.columns if before[column].dtype.is_numeric() and column != "weight"):
        told, now = (frame[column].is_not_null() & (frame[column] != -9) for frame in (before, after))
        old, new = before[column].filter(told).to_numpy(), after[column].filter(now).to_numpy()
        assert old.min() < 0 or new.min() >= 0, "no negative values where there were none"
        mean = np.average(old, weights=weight[told])
        sd = np.sqrt(np.average((old - mean) ** 2, weights=weight[told]))
        assert np.average(new, weights=weight[now]) == pytest.approx(mean, abs=0.1 * sd)


def test_exact_moments_can_be_asked_for(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "released.csv"
    asked = ["--weight", "weight", "--method", "pca", "--keep", "rest"]
    code, printed, _ = run(capsys, "protect", survey, "-o", out, *asked)
    assert code == 0
    assert "Kept exactly: weighted means" in printed
    before, after = pl.read_csv(survey), pl.read_csv(out)
    weight = before["weight"].to_numpy()
    for column in ("employees", "wages", "operating_profit"):
        old, new = (np.average(frame[column].to_numpy(), weights=weight) for frame in (before, after))
        assert new == pytest.approx(old, rel=1e-12)


def test_doses_are_those_that_were_reached(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Noise is in all of the variance, and changes a tenth of it."""
    out = tmp_path / "released.csv"
    asked = ["--method", "noise", "--keep", "rest", "--rules", "none", "--seed", SEED]
    code, printed, _ = run(capsys, "protect", survey, "-o", out, *asked)
    assert code == 0
    told = re.search(r"Changed: by (.*) % on average, (.*) to (.*) by column \(0: untouched", printed)
    assert told is not None
    names = pl.read_csv(survey).select(pl.selectors.numeric()).columns
    before, after = (pl.read_csv(path).select(names).to_numpy().T for path in (survey, out))
    doses = [1 - np.corrcoef(old, new)[0, 1] for old, new in zip(before, after, strict=True) if np.ptp(old) > 0]
    assert [float(figure) / 100 for figure in told.groups()] == pytest.approx(
        [np.mean(doses), min(doses), max(doses)], abs=0.00501
    )
    assert max(doses) < 0.2


def test_a_statistic_that_is_far_off_is_not_called_close(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, rules = tmp_path / "firms.csv", tmp_path / "rules.toml"
    cells = np.random.default_rng(1).gamma(2.0, 100, size=(300, 3))
    pl.from_numpy(cells, ["a", "b", "c"]).write_csv(source)
    rules.write_text("[columns.a]\nmaximum = 200\n")
    asked = ["protect", source, "--method", "pca", "--rules", rules, "--seed", SEED]
    code, printed, _ = run(capsys, *asked, "-o", tmp_path / "o.csv")
    assert code == 0
    assert "Kept closely" not in printed
    figures = re.search(r"Not kept: means \(off by (.*?)\), covariances \(off by (.*?)\)", printed)
    assert figures is not None
    told = json.loads(run(capsys, *asked, "-o", tmp_path / "p.csv", "--json")[1])["kept"]
    for figure, error in zip(figures.groups(), (told["mean"], told["covariance"]), strict=True):
        assert error <= float(figure) <= 1.1 * error  # rounded up, to two digits


def test_untouched_cells_come_back_as_they_were_written(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    run(capsys, "protect", few, "-o", out, "--weight", "weight", "--quiet")
    before, after = (path.read_text().splitlines() for path in (few, out))
    place = before[0].split(",").index("rd_spending")
    refused, coded = (
        [line.split(",")[-1] for line in lines if line.split(",")[place] == "-9"] for lines in (before, after)
    )
    assert refused
    assert sorted(coded) == sorted(refused), "of firms with these weights"
    assert [line.split(",")[-1] for line in after] == [line.split(",")[-1] for line in before]


def test_the_same_seed_gives_the_same_bytes_in_csv_and_parquet(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.csv"
    assert run(capsys, "protect", few, "-o", other)[0] == 0
    for extension in ("csv", "parquet"):
        first, second = (tmp_path / f"{name}.{extension}" for name in ("first", "second"))
        for path in (first, second):
            assert run(capsys, "protect", few, "-o", path, "--seed", SEED)[0] == 0
        assert first.read_bytes() == second.read_bytes()
    assert (tmp_path / "first.csv").read_bytes() != other.read_bytes()
    as_csv, as_parquet = pl.read_csv(tmp_path / "first.csv"), pl.read_parquet(tmp_path / "first.parquet")
    assert as_csv["wages"].to_list() == as_parquet["wages"].to_list()


def test_json_is_one_object_and_nothing_else(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = run(capsys, "protect", survey, "-o", tmp_path / "o.csv", "--json", "--seed", SEED)
    assert (code, err) == (0, "")
    told = json.loads(printed)
    assert told["method"] == "veil"
    assert told["kept"]["linear rules"] < 1e-12
    assert told["kept"]["mean"] < 0.01
    assert told["kept"]["covariance"] < 0.1
    assert told["kept"]["rank correlation"] < 0.1
    assert told["kept"]["distribution"] < 0.1
    assert told["dose"]["wages"]["cells_changed"] > 0.99
    assert told["labels"].keys() == {"region", "industry"}
    assert all(dose["cells_changed"] > 0.5 for dose in told["labels"].values())
    assert (told["in_clear"], told["kinds"]["region"], told["kinds"]["wages"]) == ([], "category", "count")
    assert told["risk"]["before"]["value"] == 1.0
    assert {"value", "low", "high", "chance", "better", "range", "meaning"} <= told["risk"]["after"].keys()
    assert str(SEED) not in printed


@pytest.mark.parametrize(
    "asked", [["residual_mix", "--set", "correlation=0"], ["cluster_hybrid", "--set", "modification=a"]]
)
def test_a_figure_without_bound_is_told_in_json_too(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has no infinity, and a limit that does not exist is one."""
    source, out = tmp_path / "in.csv", tmp_path / "o.csv"
    pl.DataFrame(np.random.default_rng(0).standard_normal((40, 3)), schema=["a", "b", "c"]).write_csv(source)
    code, printed, err = run(capsys, "protect", source, "-o", out, "--json", "--method", *asked)
    assert (code, err) == (0, "")
    assert json.loads(printed, parse_constant=pytest.fail)["found"]["alpha_limit"] == "Infinity"


@pytest.mark.slow
def test_reports_and_recipe_and_the_secret_seed(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {name: tmp_path / name for name in ("released.csv", "internal.html", "public.html", "recipe.toml")}
    code, printed, _ = run(
        capsys, "protect", survey, "-o", names["released.csv"], "--seed", SEED, "--report", names["internal.html"],
        "--public-report", names["public.html"], "--save-recipe", names["recipe.toml"],
    )  # fmt: skip
    assert code == 0
    for name in names:
        assert f"Wrote {names[name]}" in printed
    texts = {name: path.read_text() for name, path in names.items()}
    assert str(SEED) in texts["internal.html"]
    for name in ("released.csv", "public.html", "recipe.toml"):
        assert str(SEED) not in texts[name]
    assert str(SEED) not in printed
    assert "http" not in texts["internal.html"] + texts["public.html"], "nothing is loaded from anywhere"
    released = pl.read_csv(names["released.csv"])
    extremes = pl.read_csv(survey).select(pl.col(pl.Float64, pl.Int64)).select(pl.all().max())
    for column, value in extremes.row(0, named=True).items():
        if abs(value) >= 1000:
            assert not re.search(rf"\b{value}\b", texts["public.html"])  # in a hash, digits are part of a word
            assert value not in released[column], "the largest values are averaged"
    recipe = tomllib.loads(texts["recipe.toml"])
    assert recipe["method"] == "veil"
    assert recipe["parameters"]["exact"] is False
    assert recipe["parameters"]["marginals"] == "smoothed"


def test_parameters_reach_the_method(survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(
        capsys, "protect", survey, "-o", tmp_path / "o.parquet", "--json", "--method", "pca",
        "--set", "perturb=redraw", "--set", "components=sensitive", "--set", "sensitive=wages,employees",
        "--set", "sensitive_share=0.5", "--public", "hours_worked", "--strata", "region", "--keep", "industry",
    )  # fmt: skip
    told = json.loads(printed)
    assert code == 0
    assert told["kind"] == "hybrid"
    assert 0 < told["altered_variance"] < 1
    assert any("untouched" in warning for warning in told["warnings"])


def test_quiet_says_nothing(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "protect", few, "-o", tmp_path / "o.csv", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    "words",
    ["methods", "methods veil", "measures", "measures dbrl", "doctor", "version", "budget --rows 1000 --amounts 3"],
)
def test_quiet_leaves_the_exit_code_and_json_wins(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words.split(), "--quiet") == (0, "", "")
    code, printed, _ = run(capsys, *words.split(), "--quiet", "--json")
    assert code == 0
    assert json.loads(printed)


def test_a_quiet_budget_writes_its_dictionary_and_a_quiet_error_is_said(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "budget", few, "-o", tmp_path / "d.toml", "--quiet") == (0, "", "")
    assert (tmp_path / "d.toml").stat().st_size > 0
    code, printed, err = run(capsys, "methods", "nonesuch", "--quiet")
    assert (code, printed) == (2, "")
    assert "nonesuch" in err


def test_describe_shows_codes_and_rules_and_no_value(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "rules.toml"
    code, printed, _ = run(capsys, "describe", survey, "--save", saved)
    assert code == 0
    assert "turnover_total = turnover_domestic + turnover_export" in printed
    assert "-9" in printed
    largest = pl.read_csv(survey)["turnover_total"].max()
    assert str(largest) not in printed
    rules = tomllib.loads(saved.read_text())
    assert rules["columns"]["rd_spending"]["special_codes"] == [-9]
    assert rules["sums"] == [{"total": "turnover_total", "parts": ["turnover_domestic", "turnover_export"]}]
    asked = ["--method", "pca", "--keep", "rest", "--rules", saved]
    assert run(capsys, "protect", survey, "-o", tmp_path / "o.csv", *asked)[0] == 0
    told = json.loads(run(capsys, "describe", survey, "--json")[1])
    assert told["rows"] == 1200
    assert next(column for column in told["columns"] if column["name"] == "region")["numeric"] is False


def test_describe_counts_missing_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.csv"
    source.write_text("name,x\na,1\n,2\nb,\n,4\na,5\n")
    told = json.loads(run(capsys, "describe", source, "--json")[1])["columns"]
    assert [(column["missing"], column["distinct"]) for column in told] == [(2, 2), (1, 4)]


def test_the_help_of_describe_shows_a_dictionary(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "describe", "--help")[1]
    lines = [line.strip() for line in printed.splitlines()]
    first = lines.index("[columns.rd_spending]")
    shown = tomllib.loads("\n".join(lines[first : first + 5]))
    assert shown["columns"]["rd_spending"]["special_codes"] == [-9]
    assert shown["sums"] == [{"total": "turnover", "parts": ["domestic", "export"]}]


@pytest.mark.slow
@pytest.mark.usefixtures("all_exchanges")
def test_what_is_kept_is_told_with_weights_and_strata(
    survey: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(*options: str) -> tuple[str, str]:
        report = tmp_path / "r.html"
        files = ("-o", tmp_path / "o.csv", "--public-report", report, "--overwrite")
        printed = run(capsys, "protect", survey, *files, *options)[1]
        return printed, report.read_text()

    printed, report = told("--weight", "weight", "--strata", "region", "--method", "pca", "--keep", "industry")
    assert re.search(r"Kept exactly: weighted means .*, in every stratum", printed)
    assert "weighted column means in every stratum (in standard deviations)" in report
    assert "weighted variances and covariances in every stratum (" in report
    printed, report = told("--weight", "weight")
    assert re.search(r"Kept closely: weighted means .*, weighted covariances .*, rank correlations", printed)
    assert "weighted variances and covariances (" in report
    assert "the distributions of the columns" in report
    # Weights that follow size leave small strata no arrangement with the right moments, and that is not hidden.
    printed, report = told("--weight", "weight", "--strata", "region")
    assert "covariance: did not come back in some stratum" in printed
    assert "weighted variances and covariances" not in report
    printed, report = told()
    assert "weighted" not in report
    assert "in every stratum" not in report + printed
    assert "masked: original values, exchanged between records or blurred" in report


def test_rules_none_treats_codes_as_values(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.csv"
    before = pl.read_csv(few)["rd_spending"] == -9
    assert "taken for a code" not in run(capsys, "protect", few, "-o", out, "--rules", "none")[1]
    after = pl.read_csv(out)["rd_spending"] == -9
    assert (before & after).sum() < before.sum() / 2, "as a value, -9 goes to other records"
    asked = ["--overwrite", "--rules", "none", "--method", "pca", "--keep", "rest", "--quiet"]
    assert run(capsys, "protect", few, "-o", out, *asked)[0] == 0
    assert (pl.read_csv(out)["rd_spending"] == -9).sum() == 0


def test_methods_lists_every_parameter_with_its_range(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "methods")
    assert code == 0
    for method in mv.methods():
        assert method in printed
    printed = run(capsys, "methods", "pca")[1]
    for word in ("components", "noise_sd_ratio", "above 0 and at most 10", "bandwidth_ratio", "Calviño"):
        assert word in printed
    assert "for tests" not in printed
    names = parameters_shown(capsys, "pca")
    assert {"components", "noise_sd_ratio"} <= names
    assert not {"draws", "permutations"} & names, "these are arrays for tests"
    assert parameters_shown(capsys, "veil") == {"dominated", "exact", "marginals", "tail_group", "window"}


def parameters_shown(capsys: pytest.CaptureFixture[str], method: str) -> set[str]:
    details = json.loads(run(capsys, "methods", method, "--json")[1])
    assert details["id"] == method
    return {parameter["name"] for group in details["parameters"] for parameter in group["parameters"]}


@pytest.mark.slow
def test_demo_names_what_it_kept_and_where_its_files_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    code, printed, _ = run(capsys, "demo", "--folder", folder)
    assert code == 0
    assert "Kept exactly: linear rules" in printed
    assert re.search(r"Kept closely: means .*, weighted mean .*, weighted spread", printed)
    assert "Risk: 100.0 % of records can be linked before" in printed
    assert "labels: region, industry" in printed
    assert "labels are others in" in printed
    assert {path.name for path in folder.iterdir()} == {
        "released.csv", "report-internal.html", "report-internal.json", "report-public.html", "report-public.json",
        "recipe.toml",
    }  # fmt: skip


def test_a_second_call_in_a_process_has_the_commands_of_the_first() -> None:
    assert len(app_for(["protect"]).registered_groups) == len(app_for(["table"]).registered_groups) == len(GROUPS)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "version")[1].strip() == mv.__version__
    assert run(capsys, "--version") == (0, f"{mv.__version__}\n", "")
    assert "protect" in run(capsys)[1]
    help_text = run(capsys, "protect", "--help")[1]
    for option in ("--confidential", "--public", "--strata", "--weight", "--seed", "--report", "--json", "--quiet"):
        assert option in help_text


@pytest.mark.slow
def test_a_long_run_shows_progress_on_standard_error_only(tmp_path: Path) -> None:
    source = tmp_path / "long.parquet"
    rng = np.random.default_rng(1)
    pl.DataFrame(rng.normal(size=(130_000, 4)), schema=list("abcd")).write_parquet(source)
    result = subprocess.run(
        [sys.executable, "-m", "microveil", "protect", source, "-o", tmp_path / "o.parquet", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    json.loads(result.stdout)
    for step in ("reading the file", "perturbing", "linking records", "writing"):
        assert step in result.stderr


def test_the_output_has_ordinary_permissions(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.csv"
    old = os.umask(0o027)
    try:
        run(capsys, "protect", few, "-o", out, "--quiet")
    finally:
        os.umask(old)
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_a_comma_in_a_column_name_can_be_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.csv"
    source.write_text('"a, b",c,"d e"\n1,2,3\n4,9,1\n7,7,2\n3,1,8\n')
    out = tmp_path / "o.csv"
    assert run(capsys, "protect", source, "-o", out, "--confidential", '"a, b",d e')[0] == 0
    assert pl.read_csv(out)["c"].to_list() == [2, 9, 7, 1]


def test_a_column_called_by_a_number_is_not_the_one_at_this_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "o.csv"
    draws = np.random.default_rng(0).standard_normal((60, 2))
    labels = {"3": np.arange(60) % 3, "4": np.arange(60) % 5}
    pl.DataFrame({"1": draws[:, 0], "2": draws[:, 1], **labels}).write_csv(source)
    options = ["--method", "cluster_hybrid", "--set", "clusters=3", "--confidential", "1,2", "--json"]
    code, printed, _ = run(capsys, "protect", source, "-o", out, *options)
    assert code == 0
    assert json.loads(printed)["found"]["clusters"] == 3


def test_a_formula_with_a_comma_in_a_name_is_one_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "o.csv"
    draws = np.random.default_rng(0).standard_normal((60, 3))
    pl.DataFrame(draws, schema=["a", "b", "size, net"]).write_csv(source)
    options = ["--method", "cluster_hybrid", "--set", "global_=~ `size, net`", "--confidential", "a,b"]
    code, _, err = run(capsys, "protect", source, "-o", out, *options)
    assert (code, err) == (0, "")
    after = pl.read_csv(out)
    assert np.cov(after["a"], after["size, net"])[0, 1] == pytest.approx(np.cov(draws[:, 0], draws[:, 2])[0, 1])


def test_names_with_spaces_and_years_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "o.csv"
    source.write_text("id, wages,2019,2020\nx,2,3,4\ny,9,1,7\nz,7,2,2\nw,1,8,5\n")
    arguments = ["--confidential", "wages,2019,2020", "--set", "components=sensitive", "--set", "sensitive=2019"]
    arguments += ["--method", "pca", "--set", "exact=false"]
    code, _, err = run(capsys, "protect", source, "-o", out, *arguments, "--keep", "id")
    assert (code, err) == (0, "")
    assert pl.read_csv(out).columns == ["id", " wages", "2019", "2020"]
    assert pl.read_csv(out)["id"].to_list() == ["x", "y", "z", "w"]
    code, said, _ = run(capsys, "protect", source, "-o", out, *arguments, "--overwrite")
    assert code == 0
    assert "Note: left out of the release: column 'id' (identifier: " in said
    assert pl.read_csv(out).columns == [" wages", "2019", "2020"]


def test_columns_that_are_computed_anew_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 300)
    pl.DataFrame({"age": age, "fare": 10 * (age // 20), "income": rng.lognormal(5, 1, 300)}).write_csv(
        tmp_path / "a.csv"
    )
    code, printed, _ = run(
        capsys, "protect", tmp_path / "a.csv", "-o", tmp_path / "b.csv", "--report", tmp_path / "r.html", "--seed", 1
    )
    assert code == 0
    assert "Protected 2 columns" in printed
    assert "Computed anew from protected columns: fare" in printed
    what = json.loads((tmp_path / "r.json").read_text())["screen"]["what"]
    assert ["Computed anew", "fare: from protected columns"] in what
