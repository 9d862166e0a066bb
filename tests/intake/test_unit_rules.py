"""Sizes, places, counts and sums of units: found where they are, and nowhere else; right in every row of a release."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gaps import patterns

import microveil as mv
from microveil.intake.unit_rules import BELOW, FROM, LEAST, LEVEL, MEAN, MOST, PLACE, SIZE, SUM, find_unit_rules
from microveil.io.frames.dataframes import open_frame


def members(seed: int, *, planted: bool) -> pd.DataFrame:
    """Persons of households; the columns of the household are its own, or say something of its members."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(60, 400))
    size = rng.integers(1, 6, count)
    home = rng.permutation(np.repeat(np.arange(count), size))
    size = np.bincount(home)
    age = rng.integers(0, 90, home.size)
    sex = rng.choice(["f", "m"], home.size)
    wage = rng.lognormal(7, 1, home.size).round(2)
    data = {"household_id": home, "age": age, "sex": sex, "wage": wage, "score": rng.integers(0, 9, home.size)}
    total = lambda of: np.bincount(home, weights=of)[home]  # noqa: E731
    if not planted:
        own = {"rooms": rng.integers(1, 6, count)[home], "cars": rng.integers(0, 3, count)[home]}
        return pd.DataFrame({**data, **own, "rent": rng.lognormal(6, 1, count).round(2)[home]})
    order = pd.Series(home).groupby(home).cumcount() + 1
    own = {
        "size": size[home],
        "person": order.to_numpy(),
        "children": total(age < 14).astype(int),
        "old": total(age >= 65).astype(int),
        "women": total(sex == "f").astype(int),
        "income": total(wage).round(2),
    }
    return pd.DataFrame({**data, **own})


def found(data: pd.DataFrame) -> dict[str, tuple[str, str | None]]:
    free = [name for name in data.columns if name not in ("household_id", "sex")]
    rules = find_unit_rules(open_frame(data), "household_id", free, free, ["sex"])
    assert not any(rule.exceptions for rule in rules)
    return {rule.column: (rule.part, rule.of) for rule in rules}


def test_in_fifty_tables_all_are_found_and_nothing_else_is() -> None:
    for seed in range(50):
        assert found(members(seed, planted=True)) == {
            "size": (SIZE, None),
            "person": (PLACE, None),
            "children": (BELOW, "age"),
            "old": (FROM, "age"),
            "women": (LEVEL, "sex"),
            "income": (SUM, "wage"),
        }, seed


def test_in_fifty_tables_without_them_nothing_is_found() -> None:
    for seed in range(50):
        assert found(members(seed, planted=False)) == {}, seed


def test_a_size_that_some_households_miss_is_counted_and_not_computed() -> None:
    data = members(7, planted=True)
    wrong = data["household_id"].isin([3, 4])
    data.loc[wrong, "size"] += 1
    entry = next(e for e in mv.describe(data).relations.follows if e["column"] == "size")
    assert entry["exceptions"] == 2
    out = mv.protect(data, seed=1).data
    assert (out["size"] != out.groupby("household_id")["household_id"].transform("size")).any()


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas])
def test_they_are_right_in_every_row_of_a_release(make: object) -> None:
    data = members(3, planted=True)
    release = mv.protect(make(data), seed=2)  # type: ignore[operator]
    out = release.data if isinstance(release.data, pd.DataFrame) else release.data.to_pandas()
    homes = out.groupby("household_id")
    assert (out["size"] == homes["size"].transform("size")).all()
    assert (homes["person"].rank() == out["person"]).all()
    assert (out["children"] == homes["age"].transform(lambda a: (a < 14).sum())).all()
    assert (out["old"] == homes["age"].transform(lambda a: (a >= 65).sum())).all()
    assert (out["women"] == homes["sex"].transform(lambda s: (s == "f").sum())).all()
    assert np.allclose(out["income"], homes["wage"].transform("sum"), atol=0.005)
    assert (out["wage"] != data["wage"]).mean() > 0.9
    assert (out["women"] != data["women"]).any()
    again = mv.run(release.recipe(include_seed=True), make(data))  # type: ignore[operator]
    assert again.data.equals(release.data)


def test_what_somebody_names_is_not_computed() -> None:
    data = members(3, planted=True)
    kept = mv.protect(data, keep="children", seed=1).data
    assert kept["children"].equals(data["children"])
    named = mv.protect(data, confidential=["age", "wage", "children", "score"], keep="sex", seed=1)
    assert "children" in named.dose
    none = mv.protect(data, rules=None, seed=1)
    assert {"size", "children", "income"} <= set(none.dose), "without rules they are amounts like others"


def test_days_rise_within_units_if_they_did() -> None:
    rng = np.random.default_rng(5)
    patient = np.repeat(np.arange(150), rng.integers(1, 5, 150))
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, patient.size), unit="D")
    data = pd.DataFrame({"patient_id": patient, "day": day, "cost": rng.lognormal(5, 1, patient.size).round(2)})
    data["height"] = rng.normal(170, 9, 150).round()[patient]
    sorted_days = data.sort_values(["patient_id", "day"]).reset_index(drop=True)
    out = mv.protect(sorted_days, seed=1).data
    assert out.groupby("patient_id", sort=False)["day"].is_monotonic_increasing.all(), "in the order of the rows"
    assert sorted(out["day"]) != sorted_days["day"].tolist()
    assert not mv.protect(data, seed=1).data.groupby("patient_id")["day"].is_monotonic_increasing.all()


def test_few_units_of_a_size_are_told() -> None:
    data = members(3, planted=False)
    big = data[data["household_id"] == 0].sample(40, replace=True, random_state=1)
    with_one = pd.concat([data, big], ignore_index=True)
    release = mv.protect(with_one, seed=1, rules=None)
    assert any("have a number of rows that fewer than 10 units have" in warning for warning in release.warnings)
    release = mv.protect(with_one, seed=1)
    assert any("rows went to another unit" in warning for warning in release.warnings)
    assert release.data["household_id"].value_counts().max() == data["household_id"].value_counts().max()


# --- Odd tables: a right result


def test_tables_with_few_columns_and_rows_in_any_order() -> None:
    data = members(3, planted=True)
    size = data.groupby("household_id")["household_id"].transform("size")
    data["rent"] = (200 + data["household_id"] * 7 % 900).astype(float)
    data["town"] = np.where(data["household_id"] % 3 == 0, "a", "b")
    cases = {
        "labels alone": ["household_id", "town", "sex"],
        "one column of units": ["household_id", "rent", "sex", "age"],
        "one column of rows": ["household_id", "rent", "town", "age"],
        "all": list(data.columns),
    }
    for case, names in cases.items():
        some = data[names].assign(size=size).sample(frac=1, random_state=1).reset_index(drop=True)
        out = mv.protect(some, seed=1).data
        homes = out.groupby("household_id")
        own = [name for name in ("rent", "town") if name in names]
        assert homes[own].nunique().to_numpy().max() == 1, case
        assert (out["size"] == homes["size"].transform("size")).all(), case


def test_missing_cells_stay_together_in_their_unit() -> None:
    data = members(3, planted=True).astype({"wage": float, "score": float})
    data["rent"] = (200 + data["household_id"] * 7 % 900).astype(float)
    data.loc[data["household_id"] % 7 == 0, "rent"] = np.nan
    data.loc[::13, "wage"] = np.nan
    out = mv.protect(data, seed=1).data
    assert patterns(out[["rent", "wage"]]) == patterns(data[["rent", "wage"]])
    assert out.groupby("household_id")["rent"].apply(lambda cells: cells.isna().nunique()).max() == 1


def test_a_panel_with_waves_and_years_needs_no_option() -> None:
    """The year follows from the wave, which is the place of the row: both stay, and agree."""
    rng = np.random.default_rng(1)
    person = np.repeat(np.arange(100), 5)
    data = pd.DataFrame({"person_id": person + 700, "wave": np.tile(np.arange(1, 6), 100)})
    data["year"] = 2015 + data["wave"]
    data["copy_no"] = person + 1  # another number of the same persons
    data["sex"] = rng.choice(["f", "m"], 100)[person]
    data = data.assign(wage=rng.lognormal(7, 0.5, 500).round(2), hours=rng.normal(38, 4, 500).round(1))
    release = mv.protect(data, seed=1)
    assert {"wave", "year"} <= set(release.in_clear)
    assert (release.data["year"] == 2015 + release.data["wave"]).all()
    assert not release.data.duplicated(["person_id", "year"]).any()
    assert (release.data.groupby("person_id")["sex"].nunique() == 1).all()


def visits(seed: int, *, planted: bool) -> pd.DataFrame:
    """Visits of patients; columns of the patient say something of the visits, or nothing."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(80, 300))
    patient = rng.permutation(np.repeat(np.arange(count), rng.integers(1, 5, count)))
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, patient.size), unit="D")
    data = pd.DataFrame({"patient_id": patient, "day": day, "cost": rng.lognormal(5, 1, patient.size).round(2)})
    of, own = data.groupby("patient_id"), lambda values: values[patient]
    if not planted:
        first = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 300, count), unit="D")
        return data.assign(first=own(first), dearest=own(rng.lognormal(6, 1, count).round(2)))
    return data.assign(
        first=of["day"].transform("min"),
        last=of["day"].transform("max"),
        dearest=of["cost"].transform("max"),
        usual=of["cost"].transform("mean").round(2),
    )


def test_first_last_largest_and_mean_of_the_rows_are_found_and_nothing_else_is() -> None:
    for seed in range(25):
        for planted in (True, False):
            frame = open_frame(visits(seed, planted=planted))
            frame = frame.with_times([name for name in ("day", "first", "last") if name in frame.names])
            free = [name for name in frame.names if name != "patient_id"]
            rules = find_unit_rules(frame, "patient_id", free, ["cost"], [])
            expected = {"first": LEAST, "last": MOST, "dearest": MOST, "usual": MEAN} if planted else {}
            assert {rule.column: rule.part for rule in rules} == expected, seed


def test_first_last_largest_and_mean_are_right_in_every_row_of_a_release() -> None:
    data = visits(3, planted=True)
    after = mv.protect(data, seed=1).data
    of = after.groupby("patient_id")
    assert (after["first"] == of["day"].transform("min")).all()
    assert (after["last"] == of["day"].transform("max")).all()
    assert (after["dearest"] == of["cost"].transform("max")).all()
    assert np.allclose(after["usual"], of["cost"].transform("mean"), atol=0.0051)
    assert not after["first"].equals(data["first"])
    assert list(after.dtypes) == list(data.dtypes)


def test_a_label_that_every_unit_has_once_is_once_in_every_unit() -> None:
    for make in (pd.DataFrame, pl.from_pandas):
        data = members(7, planted=False)
        first = ~data.duplicated("household_id")
        rng = np.random.default_rng(1)
        data["relation"] = np.where(first, "head", rng.choice(["partner", "child"], len(data)))
        release = mv.protect(make(data), seed=2)
        after = release.data if isinstance(release.data, pd.DataFrame) else release.data.to_pandas()
        heads = (after["relation"] == "head").groupby(after["household_id"]).sum()
        assert (heads == 1).all()
        assert sorted(after["relation"]) == sorted(data["relation"])
        assert list(after.columns) == list(data.columns)
        assert "relation: a label that one row of each household_id has" in release.rules


def test_describe_and_protect_take_the_same_units() -> None:
    data = visits(5, planted=True)
    data.insert(0, "hospital_id", data["patient_id"] % 9 + 1)
    said = {entry["column"]: entry["follows_from"] for entry in mv.describe(data).relations.follows}
    assert said["first"] == said["dearest"] == "patient_id"
    assert "first follows from patient_id: the least of day in each" in mv.protect(data, seed=1).rules


def test_arrays_with_a_unit_have_the_right_sizes() -> None:
    rng = np.random.default_rng(2)
    size = rng.integers(1, 5, 150)
    home = np.repeat(np.arange(150.0), size)
    own, rows = rng.lognormal(size=(150, 1)), rng.lognormal(size=(home.size, 2))
    data = np.column_stack([home, np.repeat(size, size), np.repeat(own, size, axis=0), rows])
    after = mv.protect(data, seed=1, unit=0).data
    numbers = after[:, 0].astype(int)
    assert (np.bincount(numbers)[numbers] == after[:, 1]).all()
    assert not np.isclose(after[:, 2:], data[:, 2:]).all(axis=1).any()


def test_labels_of_sizes_agree_with_the_rows() -> None:
    data = members(9, planted=False)
    size = data.groupby("household_id")["age"].transform("size")
    data["persons"] = np.where(size >= 3, "3+", size.astype(str))
    release = mv.protect(data, seed=4)
    assert "persons follows from household_id: the number of rows in each" in release.rules
    after = release.data
    size = after.groupby("household_id")["age"].transform("size")
    assert (after["persons"] == np.where(size >= 3, "3+", size.astype(str))).all()
    assert "persons" in release.in_clear
    said = {entry["column"]: entry["part"] for entry in mv.describe(data).relations.follows}
    assert said == {"persons": SIZE}


def test_small_shares_with_few_digits_are_no_means() -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        home = np.repeat(np.arange(120), rng.integers(1, 4, 120))
        own = rng.choice([0.0, 0.1], 120)[home]
        data = pd.DataFrame({"household_id": home, "share": own, "part": rng.uniform(0, 0.1, home.size)})
        assert find_unit_rules(open_frame(data), "household_id", ["share", "part"], ["part"], []) == []
