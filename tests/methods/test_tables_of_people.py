"""The first call on tables as people bring them, without an option: only sizes are in clear, and everything agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fixtures.make_tables import (
    CHAPTERS,
    DAY_OF_SURVEY,
    REGIONS,
    TABLES,
    completed_years,
    hospital_visits,
    household_survey,
)

import microveil as mv
from microveil.cli.main import main
from microveil.core.fewest_records import FEWEST_RECORDS

DATES = ("birth", "admitted", "discharged")


def as_read(path: Path) -> pd.DataFrame:
    found = pd.read_csv(path)
    return found.assign(**{name: pd.to_datetime(found[name], format="%Y-%m-%d") for name in DATES if name in found})


def in_python(data: pd.DataFrame, folder: Path, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    with pytest.warns(mv.DisclosureWarning, match="released as they are: "):
        release = mv.protect(data, seed=seed)
    sizes = [name for name in ("visit_no", "visits", "person_no", "household_size") if name in data]
    assert list(release.in_clear) == sizes, "units that are numbered anew tell these, and nothing else is in clear"
    assert release.unique_in_clear == 0
    assert release.data[sizes].duplicated(keep=False).all(), "no row is unique on what is in clear"
    assert not any("correlations between them change" in warning for warning in release.warnings)
    return data, release.data


def on_the_command_line(data: pd.DataFrame, folder: Path, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    source, target = folder / "in.csv", folder / f"out{seed}.csv"
    data.to_csv(source, index=False)
    with pytest.raises(SystemExit) as ended:
        main(["protect", str(source), "-o", str(target), "--seed", str(seed), "--quiet"])
    assert ended.value.code == 0
    return as_read(source), as_read(target)


WAYS = pytest.mark.parametrize("protect", [in_python, on_the_command_line])
Protect = Callable[[pd.DataFrame, Path, int], tuple[pd.DataFrame, pd.DataFrame]]


def check_columns(data: pd.DataFrame, out: pd.DataFrame, ids: list[str], left_out: list[str]) -> None:
    """Types, precision and labels are what they were; no id of the original is left."""
    assert list(out.columns) == [name for name in data.columns if name not in left_out]
    for name in ids:
        assert not set(out[name].astype(str)) & set(data[name].astype(str))
        sizes = out[name].value_counts()
        assert sizes.size == data[name].nunique(), "as many units as there were"
        assert sizes.value_counts().min() >= FEWEST_RECORDS, "no unit is found by how many rows it has"
        assert (out[name] == out[name].shift()).sum() == (data[name] == data[name].shift()).sum(), "they stand together"
    for name in (name for name in out.columns if name not in ids):
        assert out[name].dtype == data[name].dtype, name
        assert out[name].isna().sum() == 0
        if data[name].dtype.kind == "f":
            step = next(d for d in range(-1, 4) if np.allclose(data[name], data[name].round(d), atol=1e-9))
            assert np.allclose(out[name], out[name].round(step), atol=1e-9), name
        if data[name].dtype.kind in "Ob":
            assert set(out[name]) <= set(data[name])
        if data[name].dtype.kind == "M":
            assert (out[name] == out[name].dt.normalize()).all()


@WAYS
def test_hospital_visits(protect: Protect, tmp_path: Path) -> None:
    data, out = protect(hospital_visits(), tmp_path, 1)
    check_columns(data, out, ["patient_id", "name"], ["visit_id"])
    patients = out.groupby("patient_id")
    assert (out["visits"] == patients["patient_id"].transform("size")).all()
    assert patients[["sex", "birth", "height_cm", "insurance", "name"]].nunique().to_numpy().max() == 1
    ordered = out.sort_values(["patient_id", "visit_no"])
    assert (ordered["visit_no"] == ordered.groupby("patient_id").cumcount() + 1).all()
    assert ordered.groupby("patient_id")["admitted"].is_monotonic_increasing.all()
    assert (out["age"] == completed_years(out["birth"], out["admitted"])).all()
    assert (out["chapter"] == out["icd10"].str[0].map(CHAPTERS)).all()
    assert ((out["pregnant"] == "yes") == (out["chapter"] == "pregnancy")).all()
    assert not ((out["sex"] == "m") & (out["pregnant"] == "yes")).any()
    assert (out["admitted"] <= out["discharged"]).all()
    for name in ("birth", "cost", "admitted"):
        assert (out[name] == data[name]).mean() <= 0.02


@pytest.mark.parametrize("table", [1, 9])
def test_no_birth_moves_to_a_man(table: int) -> None:
    out = mv.protect(hospital_visits(table), seed=1).data
    assert not ((out["sex"] == "m") & (out["pregnant"] == "yes")).any()


@WAYS
def test_household_survey(protect: Protect, tmp_path: Path) -> None:
    data, out = protect(household_survey(), tmp_path, 1)
    check_columns(data, out, ["household_id"], [])
    homes = out.groupby("household_id")
    assert (out["household_size"] == homes["household_id"].transform("size")).all()
    assert (homes["person_no"].rank() == out["person_no"]).all()
    assert (out["children_under_14"] == homes["age"].transform(lambda ages: (ages < 14).sum())).all()
    assert np.allclose(out["household_income"], homes["income"].transform("sum"))
    assert homes[["stratum", "region", "rent", "weight"]].nunique().to_numpy().max() == 1
    assert (out["age"] == completed_years(out["birth"], DAY_OF_SURVEY)).all()
    assert (out["region"] == out["stratum"].map(REGIONS)).all()
    assert ((out["relation"] == "head") == (out["person_no"] == 1)).all()
    assert not ((out["relation"] != "child") & (out["status"] == "child")).any()
    assert (out["income"] == out["wage"] + out["other_income"]).all()


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Dates, labels of two kinds and numbers as numbers."""
    chosen = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "Mif":
            chosen[name] = column.astype("int64" if column.dtype.kind == "M" else float).astype(float)
        elif column.nunique() == 2:
            chosen[name] = (column == sorted(column.unique())[0]).astype(float)
    return pd.DataFrame(chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "of_units", "of_rows"),
    [
        (
            "hospital_visits",
            ["sex", "birth", "height_cm", "insurance"],
            ["admitted", "age", "pregnant", "emergency", "cost"],
        ),
        ("household_survey", ["rent", "weight", "household_income"], ["birth", "age", "sex", "wage", "other_income"]),
    ],
)
def test_what_units_and_rows_have_to_do_with_each_other_comes_back(
    table: str, of_units: list[str], of_rows: list[str]
) -> None:
    """Two tables that are protected apart had errors of up to .41, and .06 to .12 in the mean."""
    data = TABLES[table]()
    found = []
    for seed in range(3):
        before, after = (numbers(frame).corr() for frame in (data, mv.protect(data, seed=seed).data))
        found.append((before - after).loc[of_units, of_rows].abs().to_numpy())
    assert np.mean(found) <= 0.02
    assert np.max(found) <= 0.1


def test_the_tables_are_the_same_each_time() -> None:
    for make in TABLES.values():
        assert make().equals(make())


def coefficients(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Of the logarithm of wages, regressed on sex, union and schooling; and their standard errors."""
    flags = [table["sex"] == "male", table["union"] == "yes", table["schooling"]]
    left = np.column_stack([np.ones(len(table)), *flags]).astype(float)
    inverse = np.linalg.inv(left.T @ left)
    found = inverse @ left.T @ table["log_wage"].to_numpy()
    rest = table["log_wage"] - left @ found
    return found, np.sqrt(np.diag(inverse) * (rest @ rest) / (len(table) - len(found)))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_regression_of_wages_on_labels_comes_back(seed: int) -> None:
    rng = np.random.default_rng(5)
    sex, union = rng.choice(["female", "male"], 1_500), rng.choice(["no", "yes"], 1_500, p=[0.7, 0.3])
    schooling = np.clip(np.round(rng.normal(12, 2.5, 1_500)), 4, 18)
    wages = 5 + 0.4 * (sex == "male") + 0.1 * (union == "yes") + 0.07 * schooling + 0.4 * rng.standard_normal(1_500)
    data = pd.DataFrame({"sex": sex, "union": union, "schooling": schooling, "log_wage": wages.round(5)})
    release = mv.protect(data, seed=seed)
    assert release.in_clear == ()
    (before, error), (after, _) = coefficients(data), coefficients(release.data)
    assert (np.abs(after - before) <= error).all()
    assert (release.data["sex"] == data["sex"]).mean() < 0.6


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.usefixtures("few_exchanges")
def test_rows_of_units_of_rare_sizes_go_to_others(kind: str) -> None:
    """Two households of nine, one of seven and three of none but one row where all others have two to four."""
    rng = np.random.default_rng(2)
    sizes = rng.permutation([*rng.choice([2, 3, 4], 120), 9, 9, 7, 1, 1, 1])
    homes = np.repeat(np.arange(sizes.size), sizes)
    data = pd.DataFrame(
        {
            "household_id": homes + 5_000,
            "rent": np.repeat(rng.lognormal(6, 0.4, sizes.size).round(1), sizes),
            "members": np.repeat(sizes, sizes),
            "wage": rng.lognormal(7, 0.5, homes.size).round(1),
        }
    )
    given = {"pandas": data, "polars": pl.from_pandas(data), "arrow": pa.Table.from_pandas(data)}[kind]
    release = mv.protect(given, seed=3)
    out = release.data if kind == "pandas" else release.data.to_pandas()
    found = out.groupby("household_id")["rent"].agg(["size", "nunique"])
    assert (found["nunique"] == 1).all()
    assert set(found["size"]) == {2, 3, 4}
    assert (out["members"] == out.groupby("household_id")["wage"].transform("size")).all()
    assert (out["household_id"] != out["household_id"].shift()).sum() == sizes.size, "no row is left where it was"
    assert any("rows went to another unit" in warning and "16" in warning for warning in release.warnings)
    assert sorted(release.order) == list(range(homes.size))
    assert (mv.protect(data, seed=3, rules=None, unit="household_id").order) is None, "the bare method, if asked for"


def test_sizes_stay_where_there_is_nothing_to_be_done() -> None:
    """A panel of twelve months, in which three firms are shorter: no other size is common, so it is said and left."""
    rng = np.random.default_rng(2)
    sizes = np.array([12] * 40 + [7, 5, 4])
    firms = np.repeat(np.arange(sizes.size), sizes)
    data = pd.DataFrame(
        {"firm_id": firms, "rate": np.repeat(rng.normal(size=43), sizes), "x": rng.normal(size=firms.size)}
    )
    release = mv.protect(data, seed=3)
    assert sorted(release.data.groupby("firm_id").size()) == sorted(sizes)
    assert any("3 of 43 units have a number of rows" in warning for warning in release.warnings)


def test_one_unit_of_very_many_rows_does_not_keep_others_from_being_hidden() -> None:
    rng = np.random.default_rng(4)
    sizes = np.array([*rng.choice([1, 2, 3], 300), 60, 5, 5])
    person = np.repeat(np.arange(sizes.size), sizes)
    data = pd.DataFrame({"person_id": person, "height": rng.normal(170, 9, sizes.size).round(1)[person]})
    data["cost"] = rng.lognormal(5, 1, person.size).round(2)
    release = mv.protect(data, seed=1)
    assert sorted(set(release.data["person_id"].value_counts())) == [1, 2, 3, 60]
    assert any("1 of 303 units have a number of rows" in warning for warning in release.warnings)


@pytest.mark.parametrize("seed", [1, 2])
def test_orders_between_units_and_rows_are_kept(seed: int) -> None:
    """Nobody is admitted before birth, and births are the patients' while days are the visits'."""
    rng = np.random.default_rng(4)
    born = pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 3_000, 200), unit="D")
    patient = np.repeat(np.arange(200), 3)
    data = pd.DataFrame({"patient_id": patient, "birth": born[patient]})
    data["admitted"] = data["birth"] + pd.to_timedelta(rng.integers(0, 2_000, 600), unit="D")
    data["age"] = completed_years(data["birth"], data["admitted"])
    data["cost"] = rng.lognormal(5, 1, 600).round(2)
    release = mv.protect(data, seed=seed)
    assert (release.data["birth"] <= release.data["admitted"]).all()
    assert (release.data["age"] >= 0).all()
    assert not any("not kept between columns" in warning for warning in release.warnings)


def test_missing_ids_are_said() -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"patient_id": np.repeat(np.arange(200), 3), "cost": rng.lognormal(5, 1, 600).round(2)})
    data["height"] = np.repeat(rng.normal(170, 9, 200).round(1), 3)
    data["patient_id"] = data["patient_id"].astype(float).where(data.index != 5)
    said = mv.protect(data, seed=1).warnings
    assert any("'patient_id' has missing cells: rows are protected one by one" in warning for warning in said)


@pytest.mark.parametrize("seed", [1, 2])
def test_labels_agree_with_bands_of_a_number(seed: int) -> None:
    """The age group follows from the age; who is in the ward of children is a child."""
    rng = np.random.default_rng(6)
    age = rng.integers(0, 95, 800)
    ward = np.where(age < 18, "kids", rng.choice(["a", "b"], 800))
    data = pd.DataFrame({"age": age, "group": np.where(age < 18, "child", "adult"), "ward": ward})
    data["cost"] = (rng.lognormal(5, 1, 800) + age).round(2)
    out = mv.protect(data, seed=seed).data
    assert ((out["group"] == "child") == (out["age"] < 18)).all()
    assert ((out["ward"] == "kids") == (out["group"] == "child")).all()
    assert (out["ward"].value_counts() == data["ward"].value_counts()).all()


@pytest.mark.slow
def test_the_bundled_survey_keeps_the_means_of_its_groups() -> None:
    """With missing cells, moments with labels counted for little: means were off by .26 in these three releases."""
    survey = pl.read_csv(mv.example_file())
    worst = [mv.protect(survey, seed=seed, protected_weight="weight").kept["group means"] for seed in range(1, 4)]
    assert np.mean(worst) <= 0.2
