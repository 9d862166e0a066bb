"""`describe`, and what `protect` shows, counts, drops and shuffles, on the command line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Sales in two parts, with a total that is wrong in 30 of 500 rows, and a column that numbers the rows."""
    rng = np.random.default_rng(1)
    home, abroad = np.round(rng.lognormal(6, 1.5, (2, 500)))
    total = home + abroad
    total[:30] += rng.integers(1, 9, 30)
    net = np.round(total * rng.uniform(0.2, 0.9, 500))
    frame = pl.DataFrame({"line": range(500), "home": home, "abroad": abroad, "total": total, "net": net})
    frame = frame.with_columns(shop=pl.Series(np.arange(500) // 4), area=pl.Series((np.arange(500) // 4) * 37 % 91))
    path = tmp_path / "sales.csv"
    frame.write_csv(path)
    return path


def test_what_is_found_is_shown_and_saved(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "describe", sales, "-o", sales.with_name("d.toml"))
    assert code == 0
    assert "Holds in 94.0 % of the rows: total = home + abroad (30 exceptions" in out
    assert re.search(r"line +│ identifier .* it numbers the rows", out)
    assert "net <= total" in out
    saved = tomllib.loads(sales.with_name("d.toml").read_text())
    assert saved["columns"]["line"] == {"kind": "identifier"}
    assert saved["sums"] == [{"total": "total", "parts": ["home", "abroad"], "exceptions": 30, "enforce": False}]
    assert {"lower": "net", "upper": "total", "enforce": "if_cheap"} in saved["orders"]


def test_it_is_shown_before_anything_is_protected(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), "--seed", 1, "--drop", "line,shop")
    assert code == 0
    assert out.index("Found in 500 rows") < out.index("total = home + abroad (30 exceptions") < out.index("Protected ")
    assert "looks like an identifier: line (it numbers the rows)" in out
    assert "dropped, on request: line, shop" in out
    assert pl.read_csv(sales.with_name("o.csv")).columns == ["home", "abroad", "total", "net", "area"]
    code, out, _ = run(
        capsys, "protect", sales, "-o", sales.with_name("o.csv"), "--rules", "none", "--quiet", "--overwrite"
    )
    assert (code, out) == (0, "")


def test_an_order_that_is_lost_is_told_with_the_way_to_keep_it(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--confidential", "home,abroad,total,net", "--method", "pca", "--seed", 1)
    _, out, _ = run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), *options)
    assert re.search(r"net <= total: 0 times before, [1-9]\d* times after", out)
    assert "by every method where the dictionary of the columns declares them" in re.sub(r"\s+", " ", out)


def test_rules_are_counted_before_and_after(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = sales.with_name("d.toml")
    run(capsys, "describe", sales, "-o", rules)
    options = ("--method", "noise", "--seed", 1, "--rules", rules, "--overwrite")
    said = run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), *options, "--drop", "line")[1]
    assert "dropped, on request: line" in said
    code, out, _ = run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), *options)
    assert code == 0
    assert "left out of the release: column 'line'" in out, "the dictionary may tell of it all the same"
    assert "total = home + abroad: 30 times before" in out
    told = json.loads(run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), *options, "--json")[1])
    line = next(line for line in told["audit"] if line["rule"] == "total = home + abroad")
    assert line["before"] == 30
    assert line["after"] > 30
    rules.write_text(re.sub('enforce = (false|"if_cheap")', "enforce = true", rules.read_text()))
    told = json.loads(run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), *options, "--json")[1])
    after = {line["rule"]: (line["before"], line["after"]) for line in told["audit"]}
    assert after["total = home + abroad"] == (30, 0)
    assert after["net <= total"] == (0, 0)
    frame = pl.read_csv(sales.with_name("o.csv"))
    assert (frame["total"] == frame["home"] + frame["abroad"]).all()
    assert (frame["net"] <= frame["total"]).all()


def test_json_has_what_was_found(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "protect", sales, "-o", sales.with_name("o.csv"), "--json")[1])
    assert told["described"]["near_rules"] == [{"rule": "total = home + abroad", "exceptions": 30, "rows": 500}]
    assert told == json.loads(json.dumps(told, allow_nan=False))


def test_a_recipe_drops_shuffles_and_knows_units(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--drop-identifiers", "--shuffle-rows", "--unit", "shop", "--seed", 3)
    recipe, out, again = (sales.with_name(name) for name in ("r.toml", "o.csv", "again.csv"))
    code, said, err = run(
        capsys, "protect", sales, "-o", out, *options, "--save-recipe", recipe, "--include-seed", "--method", "noise"
    )
    assert code == 0, err
    assert "the rows are in a random order" in said
    held = tomllib.loads(recipe.read_text())
    assert (held.get("drop"), held["shuffle_rows"], held["unit"]) == (None, True, "shop")
    assert (
        "left out of the release: column 'line' (identifier: it numbers the rows); --keep releases it as it is" in said
    )
    assert "column 'shop' is numbered anew, in a random order" in said
    assert run(capsys, "run", recipe, "-o", again)[0] == 0
    assert out.read_bytes() == again.read_bytes()
    released = pl.read_csv(out)
    assert released.columns == ["home", "abroad", "total", "net", "shop", "area"], "without the identifier"
    assert released.height == 500
    assert set(released["shop"].value_counts()["count"]) == {4}, "rows that shared a number still do"
    assert released["shop"].to_list() != sorted(released["shop"].to_list())
    assert released.group_by("shop").agg(pl.col("area").n_unique())["area"].max() == 1


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "protect", "--help")[1]
    for option in ("--unit", "--drop", "--drop-identifiers", "--shuffle-rows", "--keep-formulas"):
        assert option in said
    assert "-o" in run(capsys, "describe", "--help")[1]


def test_the_survey_is_described_in_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "protect", mv.example_file(), "-o", tmp_path / "o.csv", "--method", "noise", "--keep", "rest"
    )
    assert code == 0
    assert "labels: region, industry" in out
    assert "codes, not values: rd_spending (-9)" in out
    assert "Holds in every row: turnover_total = turnover_domestic + turnover_export" in out


def test_a_dictionary_is_toml_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,b\n1,2\n3,5\n4,1\n")
    code, out, err = run(capsys, "describe", source, "-o", tmp_path / "d.yaml")
    assert (code, out) == (2, "")
    assert "is neither TOML nor JSON" in err
    assert not (tmp_path / "d.yaml").exists()


def test_a_dictionary_that_was_edited_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, saved = tmp_path / "in.csv", tmp_path / "d.toml"
    source.write_text("a,b\n" + "".join(f"{j},{j * j}\n" for j in range(9)))
    saved.write_text("mine")
    code, _, err = run(capsys, "describe", source, "-o", saved)
    assert (code, "exists already" in err, saved.read_text()) == (2, True, "mine")
    assert run(capsys, "describe", source, "-o", saved, "--overwrite")[0] == 0
    assert saved.read_text() != "mine"


def test_dates_and_identifiers_have_no_sign_and_no_zeros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = [f"2020-{1 + n % 12:02d}-{1 + n % 28:02d}" for n in range(60)]
    table = pl.DataFrame({"person": np.arange(60) // 2, "day": days, "visits": np.arange(60) % 7})
    table.write_csv(tmp_path / "visits.csv")
    said = run(capsys, "describe", tmp_path / "visits.csv")[1]
    shown = {name: next(line for line in said.splitlines() if f" {name} " in line) for name in table.columns}
    assert {name: "0 or more" in line for name, line in shown.items()} == {
        "person": False,
        "day": False,
        "visits": True,
    }
    said = run(capsys, "protect", tmp_path / "visits.csv", "-o", tmp_path / "o.csv", "--method", "noise")[1]
    assert "Found in 60 rows and 1 column of numbers" in said
    assert "whole numbers: visits\n" in said
