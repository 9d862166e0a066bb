"""What columns are taken for, and what happens to each kind when nobody says anything."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.errors import DataError, DisclosureWarning, ParameterError
from microveil.intake.kinds import find_kinds
from microveil.io.frames.dataframes import open_frame

ROWS = 400


def people(seed: int = 0) -> pd.DataFrame:
    """A column of each kind."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], ROWS)
    birth = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 18_000, ROWS), unit="D")
    stamp = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 10**7, ROWS), unit="s")
    return pd.DataFrame(
        {
            "person_id": [f"P{i:05d}" for i in rng.permutation(ROWS)],
            "household_id": rng.permutation(np.repeat(np.arange(ROWS // 2), 2)) + 500,
            "sex": sex,
            "region": rng.integers(1, 6, ROWS),
            "wage": np.round(np.exp(7 + 0.5 * (sex == "m") + rng.normal(0, 0.4, ROWS)), 2),
            "children": rng.poisson(1.2, ROWS),
            "birth": [day.date() for day in birth],
            "visited": stamp,
            "joined": [f"{day:%d.%m.%Y}" for day in birth + pd.Timedelta(days=7_000)],
            "employed": rng.random(ROWS) < 0.6,
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], ROWS), ["low", "mid", "high"], ordered=True),
            "country": ["ES"] * ROWS,
            "note": [" ".join(rng.choice(["called", "again", "no", "answer", "paid"], 7)) for _ in range(ROWS)],
        }
    )


EXPECTED = {
    "person_id": "identifier",
    "household_id": "unit",
    "sex": "category",
    "region": "category",
    "wage": "amount",
    "children": "count",
    "birth": "date",
    "visited": "datetime",
    "joined": "date",
    "employed": "category",
    "grade": "ordered",
    "country": "constant",
    "note": "free text",
}


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, lambda f: pl.from_pandas(f).to_arrow()])
def test_kinds_are_found_whatever_the_library(make: Any) -> None:
    frame = people() if make(people()) is not None else None
    assert frame is not None
    kinds = {name: found.kind for name, found in find_kinds(open_frame(make(frame)), {}).items()}
    expected = {**EXPECTED, "grade": kinds["grade"]}
    assert kinds == expected
    assert kinds["grade"] in ("ordered", "category"), "Arrow's dictionaries have no order"


def test_the_first_call_leaves_nothing_in_clear() -> None:
    data = people()
    release = mv.protect(data, seed=1)
    assert release.kinds == EXPECTED
    assert list(release.data.columns) == [n for n in data.columns if n not in ("person_id", "note")]
    assert release.in_clear == ()
    assert set(release.labels) == {"sex", "region", "employed", "grade"}
    assert set(release.dose) == {"wage", "children", "birth", "visited", "joined"}
    out = release.data
    assert (out.dtypes == data[list(out.columns)].dtypes).all()
    for name in ("sex", "region", "employed", "grade"):
        assert sorted(out[name].astype(str)) == sorted(data[name].astype(str)), "every level as often as before"
    numbers = pd.DataFrame({"old": data["household_id"], "new": out["household_id"]}).drop_duplicates()
    assert len(numbers) == ROWS // 2
    assert set(numbers["new"]) == set(range(1, ROWS // 2 + 1)), "numbered anew, from one"
    assert all(isinstance(day, dt.date) for day in out["birth"])
    assert pd.to_datetime(out["joined"], format="%d.%m.%Y").notna().all()
    same = [(out[name].astype(str) == data[name].astype(str)).mean() for name in ("wage", "birth", "visited", "joined")]
    assert max(same) <= 0.02


def test_what_labels_and_dates_have_to_do_with_amounts_comes_back() -> None:
    data = people().drop(columns="household_id")
    out = mv.protect(data, seed=1).data
    before, after = (f.groupby("sex")["wage"].mean() for f in (data, out))
    assert (np.abs(before - after) <= 0.05 * data["wage"].std()).all()
    gap = [(pd.to_datetime(f["joined"], format="%d.%m.%Y") - pd.to_datetime(f["birth"])).dt.days for f in (data, out)]
    assert (gap[0] == 7_000).all()
    assert (gap[1] == 7_000).all(), "what follows from a date still does, in every row"


def test_a_method_without_labels_names_the_ways_out() -> None:
    data = people().drop(columns=["household_id", "region"])
    with pytest.raises(DataError, match=r"pca cannot protect labels, and columns 'sex', 'employed', 'grade' have some"):
        mv.protect(data, "pca")
    with pytest.warns(DisclosureWarning, match="sex, employed, grade"):
        release = mv.protect(data, "pca", keep=["sex", "employed", "grade"], seed=1)
    assert release.in_clear == ("sex", "employed", "grade")
    left = mv.protect(data, "pca", drop=["sex", "employed", "grade"], seed=1)
    assert left.in_clear == ()


def test_kinds_can_be_said() -> None:
    data = people()[["wage", "children", "region", "person_id"]]
    release = mv.protect(data, kinds={"region": "count", "children": "category", "person_id": "category"}, seed=1)
    assert set(release.dose) == {"wage", "region"}
    assert set(release.labels) == {"children", "person_id"}
    rules = {"columns": {"children": {"kind": "category"}, "region": {"kind": "count"}}}
    assert set(mv.protect(data, rules=rules, seed=1).labels) == {"children"}
    assert mv.protect(data, seed=1, kinds={"wage": "identifier"}).data.columns.tolist() == ["children", "region"]


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ({"wages": "amount"}, "kinds: there is no column 'wages'; did you mean 'wage'"),
        ({"wage": "money"}, "kinds: 'wage' cannot be 'money'; it is amount, count"),
        ({"sex": "amount"}, "kinds: column 'sex' has no numbers"),
        ({"sex": "date"}, "kinds: column 'sex' has no dates or times that can be read"),
        (["wage"], "kinds: takes a kind for each of some columns, not list"),
    ],
)
def test_bad_kinds_are_refused(kinds: Any, problem: str) -> None:
    with pytest.raises((DataError, ParameterError), match=problem):
        mv.protect(people(), kinds=kinds)


def test_amounts_are_no_codes_identifiers_or_dates() -> None:
    """Of fifty tables of amounts, counts and labels, none has a column that is taken for something else."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(60, 600))
        data = pd.DataFrame(
            {
                "income": np.round(rng.lognormal(7, 1, rows), 2),
                "turnover": rng.lognormal(9, 1, rows).round(),
                "children": rng.integers(0, 5, rows),
                "share": rng.random(rows),
                "change": rng.integers(-9, 9, rows),
                "town": rng.choice([f"town {i}" for i in range(rng.integers(2, 15))], rows),
                "flag": rng.random(rows) < 0.5,
            }
        )
        kinds = {name: found.kind for name, found in find_kinds(open_frame(data), {}).items()}
        assert kinds == {
            "income": "amount",
            "turnover": "count",
            "children": "count",
            "share": "amount",
            "change": "amount",
            "town": "category",
            "flag": "category",
        }, seed


# --- Odd tables: a clear error, or a right result


def test_labels_alone() -> None:
    data = people()[["sex", "employed", "grade"]]
    out = mv.protect(data, seed=1).data
    before, after = (pd.crosstab(f["sex"], f["grade"]) for f in (data, out))
    assert np.abs(before.to_numpy() - after.to_numpy()).sum() <= 0.02 * ROWS
    assert (out["grade"].astype(str) != data["grade"].astype(str)).mean() > 0.4


def test_one_column() -> None:
    with pytest.raises(DataError, match="'wage' is alone"):
        mv.protect(people()[["wage"]])
    out = mv.protect(people()[["sex"]], seed=1).data
    assert sorted(out["sex"]) == sorted(people()["sex"])


def test_identifiers_alone() -> None:
    with pytest.raises(DataError, match="there is no column to protect"):
        mv.protect(people()[["person_id"]])


def test_ten_thousand_labels() -> None:
    rng = np.random.default_rng(3)
    data = pd.DataFrame(
        {"town": [f"t{i % 10_000}" for i in range(20_000)], "x": rng.random(20_000), "y": rng.random(20_000)}
    )
    out = mv.protect(data, seed=1).data
    assert sorted(out["town"]) == sorted(data["town"])
    assert (out["town"] == data["town"]).mean() <= 0.01


def test_labels_that_differ_in_case_blanks_or_are_empty_stay_apart() -> None:
    data = people()[["wage", "children"]].assign(town=["A", "a", " a", "", None] * (ROWS // 5))
    out = mv.protect(data, seed=1).data
    assert out["town"].value_counts(dropna=False).to_dict() == data["town"].value_counts(dropna=False).to_dict()


def test_several_types_in_one_column() -> None:
    data = people()[["wage", "children"]].assign(mixed=[1, "one", None, "two"] * (ROWS // 4))
    out = mv.protect(data, seed=1).data
    assert sorted(map(str, out["mixed"])) == sorted(map(str, data["mixed"]))


def test_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from microveil.cli.main import main

    source, target = tmp_path / "people.csv", tmp_path / "out.csv"
    people().to_csv(source, index=False)
    with pytest.raises(SystemExit) as ended:
        main(["protect", str(source), "-o", str(target), "--seed", "1", "--kind", "region=count", "--keep", "sex"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "In clear: sex" in shown
    out = pd.read_csv(target)
    assert "person_id" not in out
    assert "note" not in out
    assert out["sex"].tolist() == people()["sex"].tolist()
    assert set(out["region"]) <= {1, 2, 3, 4, 5}
    assert pd.to_datetime(out["birth"], format="%Y-%m-%d").notna().all()


@pytest.mark.parametrize(
    ("name", "values", "kind", "doubtful"),
    [
        ("visited_on", [20230415, 20230416, 20230501, 20230601], "date", True),
        ("visit_date", [20230415, 20230416, 20230501, 20230601], "date", False),
        ("x", [20230101 + 100 * month + day for month in range(12) for day in range(9)], "date", False),
        ("period", [202301 + month for month in range(12)], "date", False),
        ("amount", [20230415, 20230416, 20230501, 20239901], "count", False),
        ("year", [2019, 2020, 2021], "count", False),
        ("class_year", [2019, 2020, 2021], "count", False),
        ("built", [1900, 1950, 2100], "count", False),
        ("nace_code", [1910, 1920, 2011], "category", True),
    ],
)
def test_numbers_that_are_dates_and_years_are_no_labels(
    name: str, values: list[int], kind: str, doubtful: bool
) -> None:
    frame = pl.DataFrame({name: np.random.default_rng(0).permutation(np.resize(values, 600))})
    found = find_kinds(open_frame(frame), {})[name]
    assert (found.kind, found.doubtful) == (kind, doubtful)


def test_numbers_that_are_dates_stay_dates_and_numbers() -> None:
    rng = np.random.default_rng(3)
    days = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 2_000, ROWS), unit="D")
    table = pd.DataFrame({"seen": days.strftime("%Y%m%d").astype("int32"), "wage": rng.lognormal(7, 0.4, ROWS)})
    table["month"] = table["seen"] // 100
    release = mv.protect(table, seed=1)
    assert dict(release.data.dtypes) == dict(table.dtypes)
    assert (release.data["seen"] != table["seen"]).mean() > 0.9
    pd.to_datetime(release.data["seen"].astype(str), format="%Y%m%d")
    pd.to_datetime(release.data["month"].astype(str), format="%Y%m")
    as_numbers = mv.protect(table, seed=1, kinds={"seen": "count"})
    assert as_numbers.kinds["seen"] == "count"


def test_dates_that_may_be_amounts_are_told() -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"seen": rng.choice([20230415, 20230416, 20230501], ROWS), "x": rng.normal(size=ROWS)})
    assert any("'seen' is protected as dates" in said for said in mv.protect(table, seed=1).warnings)


def test_identifiers_of_which_many_cells_are_missing() -> None:
    """Second telephone numbers were labels, and released one by one; numbers of persons were counts."""
    rng, rows = np.random.default_rng(3), 300
    gone = rng.random(rows) < 0.6
    numbers = rng.permutation(900_000)[:rows]
    frame = pd.DataFrame({"x": rng.lognormal(size=rows), "y": rng.normal(size=rows)})
    frame["phone_2"] = [None if hole else f"+49 89 {number:06d}" for hole, number in zip(gone, numbers, strict=True)]
    frame["ref"] = [None if hole else f"R{number}" for hole, number in zip(gone, numbers, strict=True)]
    frame["person_id"] = np.where(gone, np.nan, numbers)
    frame["household_id"] = np.where(gone, np.nan, np.arange(rows) // 6)
    found = {column.name: column.kind for column in mv.describe(frame).columns}
    assert found == {"x": "amount", "y": "amount"} | dict.fromkeys(["phone_2", "ref", "person_id"], "identifier") | {
        "household_id": "unit"
    }
    out = mv.protect(frame, seed=1).data
    assert list(out.columns) == ["x", "y", "household_id"]
    assert (out["household_id"].isna() == gone).all()
    pairs = pd.DataFrame({"old": frame["household_id"], "new": out["household_id"]}).dropna().drop_duplicates()
    assert pairs["old"].is_unique
    assert pairs["new"].is_unique
    assert (pairs["old"] != pairs["new"]).mean() > 0.5


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_times_of_any_zone_are_times(zone: str) -> None:
    seconds = np.random.default_rng(4).integers(0, 10**8, 200)
    frame = pd.DataFrame(
        {"x": np.random.default_rng(5).normal(size=200), "at": pd.to_datetime(seconds, unit="s", utc=True)}
    )
    frame["at"] = frame["at"].dt.tz_convert(zone)
    release = mv.protect(frame, seed=1)
    assert release.kinds["at"] == "datetime"
    assert release.data["at"].dtype == frame["at"].dtype


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda data: pl.from_pandas(pd.DataFrame(data))], ids=["pandas", "polars"]
)
@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00", "%Y-%m-%dT%H:%M:%S.125Z"])
def test_texts_of_times_with_zones_and_fractions_are_times(make: Any, form: str) -> None:
    rng = np.random.default_rng(4)
    stamps = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 10**8, 120), unit="s")
    data = make({"at": [stamp.strftime(form) for stamp in stamps], "x": rng.normal(size=120).round(2)})
    release = mv.protect(data, seed=1)
    assert release.kinds["at"] == "datetime"
    released, ending = [str(cell) for cell in release.data["at"]], form[form.index("%S") + 2 :].replace(".125", ".%f")
    assert pd.to_datetime(pd.Series(released), format=form[: form.index("%S") + 2] + ending).notna().all()
    assert {len(cell) for cell in released} == {len(cell) for cell in data["at"]}
    assert released != [str(cell) for cell in data["at"]]


def test_times_of_several_zones_in_one_column_are_left_out() -> None:
    rng = np.random.default_rng(4)
    cells = [
        f"2021-03-{1 + i % 28:02d}T{i % 24:02d}:{i % 60:02d}:11{'+01:00' if i % 2 else '+02:00'}" for i in range(99)
    ]
    release = mv.protect(pd.DataFrame({"at": cells, "x": rng.normal(size=99), "y": rng.normal(size=99)}), seed=1)
    assert "at" not in release.data.columns


@pytest.mark.parametrize(
    "make", [pd.DataFrame, lambda data: pl.from_pandas(pd.DataFrame(data))], ids=["pandas", "polars"]
)
def test_spans_of_time_and_decimals_of_python_are_amounts(make: Any) -> None:
    rng = np.random.default_rng(5)
    price = [None if i % 9 == 0 else Decimal(int(cents)) / 100 for i, cents in enumerate(rng.integers(99, 9999, 150))]
    stay = pd.to_timedelta(rng.integers(60, 10**6, 150), unit="s")
    data = make({"stay": stay, "price": price, "x": rng.normal(size=150)})
    release = mv.protect(data, seed=2)
    assert release.kinds["stay"] == "time"
    assert release.kinds["price"] == "amount"
    after = release.data
    assert [str(kind) for kind in after.dtypes] == [str(kind) for kind in data.dtypes]
    prices = list(after["price"])
    assert all(isinstance(cell, Decimal) and cell == round(cell, 2) for cell in prices if cell is not None)
    assert prices.count(None) == price.count(None)
    assert (
        abs(np.corrcoef([s.total_seconds() for s in after["stay"]], [s.total_seconds() for s in data["stay"]])[0, 1])
        < 0.3
    )


def test_remarks_that_few_have_are_remarks() -> None:
    rng = np.random.default_rng(6)
    wrote = rng.random(400) < 0.1
    remarks = [f"says that thing number {i} hurts on the left" if one else "" for i, one in enumerate(wrote)]
    short = [f"n{i}" if one else "" for i, one in enumerate(wrote)]
    levels = [("yes" if i % 3 else "no") if one else "" for i, one in enumerate(wrote)]
    data = pd.DataFrame({"remark": remarks, "note": short, "asked": levels, "x": rng.normal(size=400)})
    kinds = {name: column.kind for name, column in find_kinds(open_frame(data), {}).items()}
    assert kinds == {"remark": "free text", "note": "identifier", "asked": "category", "x": "amount"}
