"""What is found in a file: kinds, codes, domains, heaps, and rules that hold in every row, in most, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
from numpy.typing import NDArray

import microveil as mv
from microveil.intake.describe import ColumnDescription, Description

Array = NDArray[np.float64]


def found(description: Description, name: str) -> ColumnDescription:
    return next(column for column in description.columns if column.name == name)


def with_totals(rows: int = 1000, wrong: int = 0, seed: int = 3) -> pl.DataFrame:
    """Amounts in three parts with a total that is off by a little in some rows."""
    rng = np.random.default_rng(seed)
    home, abroad, other = np.round(rng.lognormal(6, 1.5, (3, rows)))
    total = home + abroad + other
    total[rng.choice(rows, wrong, replace=False)] += rng.integers(1, 50, wrong)
    return pl.DataFrame({"home": home, "abroad": abroad, "other": other, "total": total})


# --- The bundled survey and the reference files, without help


@pytest.fixture(scope="module")
def survey() -> Description:
    return mv.describe(pl.read_csv(mv.example_file()))


def test_the_survey(survey: Description) -> None:
    assert survey.rules == ["turnover_total = turnover_domestic + turnover_export"]
    assert survey.near_rules == []
    coded = {column.name: (column.special_codes, column.coded) for column in survey.columns if column.special_codes}
    data = pl.read_csv(mv.example_file())
    assert coded == {"rd_spending": ((-9.0,), int((data["rd_spending"] == -9).sum()))}
    whole = [column.name for column in survey.columns if column.integer]
    assert {"employees", "hours_worked", "turnover_total", "wages", "rd_spending"} <= set(whole)
    assert (found(survey, "energy_cost").step, found(survey, "energy_cost").decimals) == (0.01, 2)
    assert found(survey, "energy_cost").missing == data["energy_cost"].null_count() > 0
    spikes = [column.name for column in survey.columns if column.zero_spike]
    assert spikes == ["turnover_export", "investment", "stock_change", "rd_spending"]
    assert found(survey, "wages").minimum == 0
    assert found(survey, "stock_change").minimum is None
    assert (found(survey, "region").kind, found(survey, "region").content) == ("category", "text")
    assert survey.identifiers == {}


def test_census() -> None:
    names, values = reference.census()
    described = mv.describe(pd.DataFrame(values, columns=names))
    assert "PTOTVAL = POTHVAL + PEARNVAL" in described.rules
    assert len(described.rules) == 1
    assert {"total": "PTOTVAL", "parts": ["POTHVAL", "PEARNVAL"]} in described.sums
    assert found(described, "WSALVAL").heaping[500] > 0.5, "people round their wages"


def test_eia() -> None:
    frame = pl.read_csv(reference.reference_file("EIA.csv"))
    described = mv.describe(frame)
    assert described.rules == []
    near = {line["rule"]: line for line in described.near_rules}
    for which in ("REVENUE", "SALES"):
        parts = [f"{kind}{which}" for kind in ("RES", "COM", "IND", "OTHR" if which == "SALES" else "OTH")]
        line = near[f"TOT{which} = {' + '.join(parts)}"]
        broken = int((frame[f"TOT{which}"] != sum(frame[part] for part in parts)).sum())
        assert line["exceptions"] == broken
        assert 1 - broken / frame.height == pytest.approx(0.94, abs=0.01)
    enforced = {entry["total"]: entry["enforce"] for entry in described.sums}
    assert enforced == {"TOTREVENUE": False, "TOTSALES": False}
    assert set(described.identifiers) == {"UTILITYID", "UTILNAME"}
    rules = described.to_dictionary()
    rules["sums"] = [{**entry, "enforce": True} for entry in rules["sums"]]
    amounts = [name for name in frame.columns if name.endswith(("REVENUE", "SALES"))]
    audit = {
        line.rule: line for line in mv.protect(frame, "noise", confidential=amounts, rules=rules, seed=1).audit or []
    }
    for rule, line in near.items():
        assert (audit[rule].before, audit[rule].after) == (line["exceptions"], 0)


# --- Their siblings on data of our own


def test_a_total_that_holds_in_every_row_is_exact() -> None:
    described = mv.describe(with_totals())
    assert described.rules == ["total = home + abroad + other"]
    assert described.near_rules == []


def test_a_total_with_exceptions_is_told_with_their_number_and_kept_only_if_asked() -> None:
    data = with_totals(wrong=60)
    described = mv.describe(data)
    assert described.rules == []
    assert described.near_rules == [{"rule": "total = home + abroad + other", "exceptions": 60, "rows": 1000}]
    (entry,) = described.sums
    assert (entry["exceptions"], entry["enforce"]) == (60, False)
    rules = described.to_dictionary()

    def broken(frame: pl.DataFrame) -> int:
        gap = frame["total"] - frame["home"] - frame["abroad"] - frame["other"]
        return int((gap.abs() > 1e-6).sum())

    free = mv.protect(data, "noise", rules=rules, seed=1)
    assert broken(free.data) > 60
    entry["enforce"] = True
    kept = mv.protect(data, "noise", rules=rules, seed=1)
    assert broken(kept.data) == 0
    audit = {line.rule: line for line in kept.audit or []}
    assert (audit["total = home + abroad + other"].before, audit["total = home + abroad + other"].after) == (60, 0)


def test_rules_with_other_coefficients_come_back_from_the_dictionary() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(1, 10_000, (2, 300)).astype(float)
    data = pl.DataFrame({"a": a, "b": b, "y": 2 * a - 3 * b})
    described = mv.describe(data)
    (entry,) = described.sums
    release = mv.protect(data, rules=described.to_dictionary(), seed=1)
    columns = {name: release.data[name].to_numpy() for name in data.columns}
    expected = sum(c * columns[part] for c, part in zip(entry["coefficients"], entry["parts"], strict=True))
    assert np.allclose(columns[entry["total"]], expected, rtol=1e-9)


# --- No rule where there is none


def random_table(seed: int) -> Array:
    """Fifty kinds of tables: widths, tails, roundings, correlations, spikes and holes."""
    rng = np.random.default_rng([seed, 9])
    rows, width = int(rng.integers(40, 400)), int(rng.integers(3, 9))
    values = rng.standard_normal((rows, width)) @ rng.standard_normal((width, width))
    if seed % 2:
        values = np.exp(values / 2)
    if seed % 3 == 1:
        values = np.round(values * 10.0 ** rng.integers(0, 4))
    if seed % 5 == 2:
        values[rng.random(values.shape) < 0.2] = 0
    if seed % 4 == 3:
        values[rng.random(values.shape) < 0.03] = np.nan
    return values


@pytest.mark.parametrize("seed", range(50))
def test_no_false_exact_rule(seed: int) -> None:
    described = mv.describe(random_table(seed))
    assert described.rules == []
    assert all(entry["exceptions"] for entry in described.sums)


@pytest.mark.parametrize("seed", range(20))
def test_independent_columns_have_no_order(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    assert mv.describe(np.exp(rng.standard_normal((60, 8)))).orders == []


# --- Orders, heaps, kinds, units


def test_an_order_is_found_and_those_that_follow_are_not_told() -> None:
    rng = np.random.default_rng(7)
    gross = rng.lognormal(7, 1, 500).round(2)
    net = (gross * rng.uniform(0.4, 0.95, 500)).round(2)
    least = (net * rng.uniform(0.3, 0.9, 500)).round(2)
    described = mv.describe(pl.DataFrame({"gross": gross, "net": net, "least": least}))
    assert [(order["lower"], order["upper"]) for order in described.orders] == [("net", "gross"), ("least", "net")]
    assert all(order["enforce"] == "if_cheap" for order in described.orders)
    assert "kept by veil, unless" in described.treatments["net <= gross"]


def test_parts_of_a_sum_are_not_told_to_be_below_it() -> None:
    assert mv.describe(with_totals()).orders == []


def test_columns_of_other_sizes_are_in_no_order() -> None:
    rng = np.random.default_rng(8)
    data = pl.DataFrame({"age": rng.integers(18, 80, 500), "income": rng.integers(5_000, 90_000, 500)})
    assert mv.describe(data).orders == []


def test_kinds_units_and_what_cannot_be_described() -> None:
    data = pd.DataFrame(
        {
            "weight (kg)": np.linspace(3, 90, 60),
            "cost_eur": np.round(np.linspace(1, 90, 60), 2),
            "flag": [0.0, 1.0] * 30,
            "year": [1996] * 60,
            "none": [np.nan] * 60,
            "much": [np.inf, *range(59)],
            "large": [1e160, *range(59)],
            "small": np.linspace(0, 1e-160, 60),
            "town": [f"t{i % 7}" for i in range(60)],
        }
    )
    described = mv.describe(data)
    contents = {column.name: column.content for column in described.columns}
    assert contents == {
        "weight (kg)": "number",
        "cost_eur": "number",
        "flag": "flag",
        "year": "constant",
        "none": "empty",
        "much": "infinite",
        "large": "beyond squaring",
        "small": "beyond squaring",
        "town": "text",
    }
    kinds = {column.name: column.kind for column in described.columns}
    assert kinds == {
        "weight (kg)": "amount",
        "cost_eur": "amount",
        "flag": "count",
        "year": "constant",
        "none": "constant",
        "much": "count",
        "large": "count",
        "small": "amount",
        "town": "category",
    }
    assert [found(described, name).unit for name in ("weight (kg)", "cost_eur", "town")] == ["kg", "EUR", ""]
    assert found(described, "year").step is None, "the divisor of a constant is its value"


def test_no_value_is_told() -> None:
    rng = np.random.default_rng(12)
    values = np.round(rng.lognormal(9, 1, (400, 3)), 2)
    said = json.dumps(mv.describe(values).to_dict()) + repr(mv.describe(values))
    for value in values[:, 0]:
        assert f"{value:.2f}" not in said


# --- One search for `describe` and `protect`


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25])
def test_describe_finds_what_protect_keeps(share: float) -> None:
    rng = np.random.default_rng(17)
    frame = with_totals(300, seed=17).to_pandas()
    frame["net"] = frame["home"] - frame["abroad"]
    frame["more"] = rng.gamma(2, 3, 300)
    frame = frame.mask(rng.random(frame.shape) < share)
    assert sorted(mv.describe(frame).rules) == sorted(mv.protect(frame, "pca", seed=1).rules) != []


def test_where_hardly_a_row_is_whole_both_look_at_the_fullest_columns() -> None:
    frame = with_totals(200).to_pandas()
    rng = np.random.default_rng(3)
    for j in range(6):
        frame[f"sparse {j}"] = np.where(rng.random(200) < 0.2, rng.gamma(2, 3, 200), np.nan)
    assert frame.dropna().shape[0] < 5
    expected = ["total = home + abroad + other"]
    assert mv.describe(frame).rules == expected
    assert mv.protect(frame, "pca", seed=1).rules == expected


def test_domains_are_those_that_are_enforced(survey: Description) -> None:
    data = pl.read_csv(mv.example_file())
    release = mv.protect(data, seed=1)
    for column in survey.columns:
        values = release.data[column.name]
        if column.kind in ("whole", "number") and column.special_codes == ():
            present = values.drop_nulls().to_numpy().astype(float)
            assert column.minimum is None or present.min() >= column.minimum
            steps = present / (column.step or 1)
            assert column.step is None or np.abs(steps - np.round(steps)).max() < 1e-6


# --- There and back


@pytest.mark.parametrize("name", ["d.toml", "d.json"])
def test_what_was_found_can_be_given_back(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from microveil.cli.main import main

    path = tmp_path / name
    with pytest.raises(SystemExit) as ended:
        main(["describe", str(mv.example_file()), "-o", str(path), "--json"])
    assert ended.value.code == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["rules"] == ["turnover_total = turnover_domestic + turnover_export"]
    data = pl.read_csv(mv.example_file())
    release = mv.protect(data, "pca", rules=path, weight="weight", keep="rest", seed=1)
    again = mv.protect(data, "pca", rules=mv.describe(data).to_dictionary(), weight="weight", keep="rest", seed=1)
    assert release.data.equals(again.data)
    assert (release.data["employees"] == release.data["employees"].round()).all(), "declared, it comes before moments"
    coded = data["rd_spending"] == -9
    assert (release.data["rd_spending"].filter(coded) == -9).all()


def test_rules_of_columns_that_do_not_leave_are_not_called_kept() -> None:
    rng = np.random.default_rng(3)
    people = np.repeat(np.arange(1, 101), 2)
    visits = np.tile([1, 2], 100)
    table = pl.DataFrame(
        {
            "row": 2 * people + visits - 2,
            "person_id": people,
            "visit": visits,
            "cost": rng.lognormal(7, 1, 200).round(2),
        }
    )
    described = mv.describe(table)
    assert found(described, "row").kind == "identifier"
    assert not described.rules


# --- Columns that follow from one column, and are in other rules


def with_fares(rows: int = 600) -> pl.DataFrame:
    """Fares that follow from the age, a multiple of them, and a total with them."""
    rng = np.random.default_rng(0)
    age, income = rng.integers(0, 90, rows), rng.lognormal(5, 1, rows).round()
    fare = np.array([0, 40, 95, 70, 20])[np.digitize(age, [6, 18, 30, 65])]
    return pl.DataFrame({"age": age, "fare": fare, "income": income, "total": income + fare})


def test_a_dictionary_that_was_written_is_taken_back_where_a_column_follows_and_is_in_a_sum() -> None:
    table = with_fares()
    described = mv.describe(table)
    assert described.rules == ["total = fare + income"]
    assert described.relations.sentences == ["fare follows from age: by its value"]
    release = mv.protect(table, rules=described.to_dictionary(), seed=1)
    assert release.rules == ["total = fare + income"]
    assert (release.data["total"] == release.data["fare"] + release.data["income"]).all()


def test_what_is_said_of_a_rule_allows_for_columns_that_follow() -> None:
    table = with_fares()
    assert "by veil kept only if the dictionary" in mv.describe(table).treatments["total = fare + income"]
    doubled = table.select("age", "fare", "income", twice=2 * pl.col("fare"))
    described = mv.describe(doubled)
    assert described.treatments["twice = 2 fare"] == "kept: fare is computed from the others"
    release = mv.protect(doubled, seed=1)
    assert (release.data["twice"] == 2 * release.data["fare"]).all()
    assert set(release.computed) == {"fare", "twice"}
