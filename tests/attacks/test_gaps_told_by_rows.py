"""Who knows a row knows no gap of its record: wherever rows come from, however they are kept, and in units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import microveil as mv

pytestmark = pytest.mark.filterwarnings("ignore::microveil.DisclosureWarning")
WENT, STAY = "they went to other rows", "they stay in their places or can be guessed"


def told(before: pd.Series, after: pd.Series) -> float:
    """How much better than chance a gap tells that of the record that was in its row: 1 if all are known."""
    old, new = before.isna().to_numpy(), after.isna().to_numpy()
    chance = old.mean() * new.mean() + (1 - old.mean()) * (1 - new.mean())
    return float(((old == new).mean() - chance) / (1 - chance))


def said(release: mv.Release, words: str) -> bool:
    return any(words in warning for warning in release.warnings)


def prices(rows: int = 1_200) -> pd.DataFrame:
    """A price that follows from the month, and is missing on its own in a fifth of the rows."""
    rng = np.random.default_rng(3)
    month = rng.integers(0, 40, rows)
    price = rng.permutation(1_000)[:40][month].astype(float)
    table = {"month": month, "price": np.where(rng.random(rows) < 0.2, np.nan, price)}
    return pd.DataFrame({**table, "wage": rng.lognormal(7, 0.6, rows).round(), "debt": rng.lognormal(8, 1, rows)})


def in_clusters(rows: int, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    middle = np.array([[0, 0, 0], [4, 4, -4]])[rng.integers(0, 2, rows)]
    table = pd.DataFrame(100 * np.exp(0.3 * (0.4 * rng.normal(size=(rows, 3)) + middle)).round(4), columns=list("abc"))
    table.loc[rng.random(rows) < 0.05, "c"] = np.nan
    return table


# --- Values


def test_hidden_clusters_do_not_stay_with_rows_that_have_nobody_to_trade_with() -> None:
    sizes = np.arange(20, 80)
    firms = in_clusters(int(sizes.sum()))
    firms.insert(0, "firm_id", np.repeat([f"f{number:03}" for number in range(60)], sizes))
    release = mv.protect(firms, unit="firm_id", seed=1)
    for name in "abc":
        assert abs(firms[name].corr(release.data[name])) < 0.1
    assert said(release, STAY)
    assert not said(release, WENT)


@pytest.mark.slow
def test_hidden_clusters_do_not_stay_with_rows_in_their_order() -> None:
    table = in_clusters(140_000).sort_values("a", ignore_index=True)
    after = mv.protect(table, seed=1).data
    for name in "abc":
        assert abs(table[name].corr(after[name])) < 0.02


# --- Long files


def test_gaps_of_a_file_in_order_go_all_over_it() -> None:
    rng, rows = np.random.default_rng(0), 2 * 65_536 + 1
    table = pd.DataFrame(rng.lognormal(7, 0.5, (rows, 3)).round(), columns=["wage", "debt", "rent"])
    table.loc[: rows // 2, "debt"] = np.nan
    release = mv.protect(table, seed=1)
    assert abs(told(table["debt"], release.data["debt"])) < 0.02
    assert not said(release, STAY)


# --- Columns that are computed anew


def test_own_gaps_of_computed_columns_go_elsewhere_in_arrays_too() -> None:
    table = prices()
    array = mv.protect(table.to_numpy(), seed=1)
    assert array.computed == ("1",)
    assert told(table["price"], pd.Series(array.data[:, 1])) < 0.1
    assert said(array, WENT)


def test_own_gaps_of_computed_columns_are_said_to_stay_where_they_do() -> None:
    table = prices()
    release = mv.protect(table, public="debt", seed=1)
    assert told(table["price"], release.data["price"]) == 1
    assert said(release, f"in {table['price'].isna().sum()} rows, which fewer than 10 are like")


def test_words_for_gaps_of_computed_columns_go_along(tmp_path: Path) -> None:
    table, words = prices(), np.random.default_rng(1).choice(["", "NA", "."], 1_200)
    cells = [word if np.isnan(price) else f"{price:.0f}" for word, price in zip(words, table["price"], strict=True)]
    table.assign(price=cells).to_csv(tmp_path / "in.csv", index=False)
    mv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", seed=1)
    old, new = (pd.read_csv(tmp_path / f, dtype=str, keep_default_na=False)["price"] for f in ("in.csv", "out.csv"))
    gaps = [cells[~cells.str.isdigit()] for cells in (old, new)]
    assert gaps[0].value_counts().equals(gaps[1].value_counts())
    both = gaps[0].index.intersection(gaps[1].index)
    assert (old[both] == new[both]).mean() < 0.6


def test_computed_columns_agree_in_units_that_were_resized() -> None:
    rng = np.random.default_rng(4)
    sizes = np.r_[rng.integers(1, 4, 400), 6, 7, 9]
    home = np.repeat(np.arange(sizes.size), sizes)
    age = np.where(rng.random(home.size) < 0.15, np.nan, rng.integers(0, 90, home.size))
    group = np.array(["child", "adult", "old"], dtype=object)[np.digitize(np.nan_to_num(age), [18, 65])]
    table = pd.DataFrame({"household_id": home + 500, "age": age, "group": np.where(np.isnan(age), None, group)})
    table = table.assign(rent=rng.lognormal(6, 0.4, sizes.size).round()[home], wage=rng.lognormal(7, 1, home.size))
    release = mv.protect(table, seed=1)
    assert "group follows from age: by its value" in release.rules
    assert (release.data["age"].isna() == release.data["group"].isna()).all()


# --- Units


def visits() -> pd.DataFrame:
    """Visits of patients in hospitals: an income of the patient, a weight and a pressure of each visit."""
    rng, rows = np.random.default_rng(2), []
    for hospital in range(150):
        for patient in range(rng.integers(2, 6)):
            income = float(round(rng.lognormal(7, 0.5))) if rng.random() > 0.3 else np.nan
            for _ in range(rng.integers(1, 5)):
                pressure = float(round(rng.normal(120, 10))) if rng.random() > 0.2 else np.nan
                rows.append((f"H{hospital:03}", f"P{hospital:03}{patient:03}", income, rng.normal(70, 10), pressure))
    return pd.DataFrame(rows, columns=["hospital_id", "patient_id", "income", "kg", "pressure"]).round()


def test_patients_trade_their_gaps_all_over_the_hospitals() -> None:
    table = visits()
    release = mv.protect(table, seed=1)
    assert told(table["income"], release.data["income"]) < 0.15
    assert told(table["pressure"], release.data["pressure"]) < 0.15
    assert said(release, WENT)


def test_gaps_of_hospitals_that_stay_are_said_to() -> None:
    table = visits()
    beds = np.where(np.arange(150) % 5 == 0, np.nan, np.arange(150) * 7.0 + 20)
    table["beds"] = beds[table["hospital_id"].str[1:].astype(int)]
    release = mv.protect(table, seed=1)
    left = [warning for warning in release.warnings if STAY in warning]
    assert len(left) == 1
    assert int(left[0].split(" rows, which")[0].rpartition(" ")[2]) >= table["beds"].isna().sum()


def test_dates_of_patients_agree_with_what_follows_from_them_although_some_are_missing() -> None:
    rng = np.random.default_rng(1)
    patient = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    days = rng.integers(0, 4_000, patient.size)
    table = pd.DataFrame(
        {"patient_id": patient + 10**5, "visit": pd.Timestamp("2012-01-01") + pd.to_timedelta(days, "D")}
    )
    table["birth"] = (pd.Timestamp("1935-03-01") + pd.to_timedelta(rng.integers(0, 28_000, 400), "D"))[patient]
    table["weekday"] = table["visit"].dt.day_name()
    table = table.assign(kg=rng.normal(70, 9, patient.size).round(1), cost=rng.lognormal(3, 1, patient.size).round(2))
    for name in ("visit", "birth", "weekday"):
        table[name] = table[name].where(rng.random(patient.size) > 0.02)
    release = mv.protect(table, seed=1)
    after = release.data
    assert "weekday" in release.computed
    assert after.groupby("patient_id")["birth"].nunique().max() == 1
    known = after.dropna()
    assert (known["weekday"] == known["visit"].dt.day_name()).all()
    for name in table:
        assert after[name].isna().sum() == table[name].isna().sum()
        assert (after[name].isna() & table[name].isna()).sum() <= 4
    assert said(release, WENT)


def test_doses_of_units_are_those_of_what_is_released() -> None:
    rng = np.random.default_rng(5)
    home = np.repeat(np.arange(300), 3)
    table = pd.DataFrame({"home_id": home, "rent": rng.lognormal(6, 0.4, 300).round()[home]})
    table = table.assign(town=rng.choice(list("abcd"), 300)[home], sex=rng.choice(["f", "m"], home.size))
    table["wage"] = np.where(rng.random(home.size) < 0.3, np.nan, rng.lognormal(7, 1, home.size).round())
    release = mv.protect(table, unit="home_id", seed=1)
    for name in ("town", "sex"):
        assert release.labels[name].cells_changed == pytest.approx((release.data[name] != table[name]).mean())
    known = table["wage"].notna()
    assert release.dose["wage"].cells_changed == pytest.approx((release.data["wage"] != table["wage"])[known].mean())


# --- Names


@pytest.mark.parametrize("names", [[0, 1, 2], [0.5, 1.5, 2.5], [("a", 1), ("a", 2), ("b", 1)]])
def test_names_need_not_be_text(names: list[object]) -> None:
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=(500, 3))
    values[rng.random(500) < 0.2, 1] = np.nan
    table = pd.DataFrame(values)
    table.columns = pd.Index(names)
    after = mv.protect(table, seed=1).data
    assert list(after.columns) == list(table.columns)
    assert after.iloc[:, 1].isna().sum() == table.iloc[:, 1].isna().sum()


# --- Found by a second attack


def test_codes_of_missing_labels_of_statistics_packages_are_dealt_out_anew(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    rng = np.random.default_rng(0)
    shares = [0.3, 0.3, 0.2, 0.1, 0.1]
    before = pd.DataFrame({"edu": rng.choice([1.0, 2, 3, -8, -9], 1_500, p=shares)})
    before = before.assign(wage=rng.lognormal(7, 0.6, 1_500).round(), debt=rng.lognormal(8, 1, 1_500).round())
    words = {"edu": {1: "low", 2: "mid", 3: "high", -8: "refused", -9: "unknown"}}
    pyreadstat.write_sav(before, tmp_path / "in.sav", variable_value_labels=words, missing_ranges={"edu": [-8, -9]})
    for name in ("out.sav", "again.sav"):
        mv.protect_file(tmp_path / "in.sav", tmp_path / name, seed=1)
    after, again = (pyreadstat.read_sav(tmp_path / f, user_missing=True)[0]["edu"] for f in ("out.sav", "again.sav"))
    assert after.equals(again)
    assert after.value_counts().sort_index().equals(before["edu"].value_counts().sort_index())
    for code in (-8, -9):
        assert ((after == code) & (before["edu"] == code)).sum() < 0.2 * (before["edu"] == code).sum()


def test_rows_without_a_number_are_said_to_stay_so() -> None:
    rng = np.random.default_rng(0)
    employer = [None if rng.random() < 0.3 else f"E{rng.integers(0, 100):04}" for _ in range(1_200)]
    table = pd.DataFrame({"employer_id": employer, "wage": rng.lognormal(7, 0.6, 1_200).round()})
    release = mv.protect(table.assign(debt=rng.lognormal(8, 1, 1_200).round()), seed=1)
    assert said(release, f"column 'employer_id' is missing in {employer.count(None)} rows, and still is in these")


def test_gaps_of_what_follows_from_a_column_of_hospitals_are_said_to_stay() -> None:
    rng = np.random.default_rng(0)
    hospital = np.repeat(np.arange(150), 14)
    patient, of_rows = np.repeat(np.arange(hospital.size), 2), np.repeat(hospital, 2)
    beds = rng.integers(3, 60, 150) * 10.0
    size = np.array(["small", "mid", "big"], object)[np.digitize(beds, [205, 405])]
    size[rng.random(150) < 0.3] = None
    table = pd.DataFrame({"hospital_id": [f"H{x:03}" for x in of_rows], "patient_id": [f"P{x:05}" for x in patient]})
    table = table.assign(beds=beds[of_rows], size_class=size[of_rows], bp=rng.normal(120, 10, patient.size).round())
    table["income"] = rng.lognormal(7, 0.5, hospital.size).round()[patient]
    release = mv.protect(table, seed=1)
    if told(table["size_class"], release.data["size_class"]) > 0.1:
        assert said(release, f"in {table['size_class'].isna().sum()} rows, which fewer than 10 are like")


def test_a_word_for_a_gap_goes_with_it() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 1_200).astype(float)
    group = np.array(["child", "adult", "old"], object)[np.digitize(age, [18, 65])]
    blank = rng.random(1_200) < 0.08
    age[blank], group[blank] = np.nan, "unknown"
    table = pd.DataFrame({"age": age, "group": group, "wage": rng.lognormal(7, 0.6, 1_200).round()})
    release = mv.protect(table.assign(debt=rng.lognormal(8, 1, 1_200).round()), seed=1)
    after = release.data
    assert "group" in release.computed
    assert ((after["group"] == "unknown") == after["age"].isna()).all()
    assert after["age"].isna().sum() == blank.sum()
    table.loc[np.flatnonzero(blank)[:5], "group"] = "not asked"  # two words: the gap does not tell which
    assert "group" not in mv.protect(table, seed=1).computed


def test_what_is_the_same_in_a_unit_is_not_drawn_row_by_row() -> None:
    rng = np.random.default_rng(0)
    home = np.repeat(np.arange(400), rng.integers(2, 5, 400))
    table = pd.DataFrame({"patient_id": home + 1_000, "age": rng.integers(0, 90, 400).astype(float)[home]})
    table["group"] = np.array(["child", "adult", "old"], object)[np.digitize(table["age"], [18, 65])]
    table = table.assign(bp=rng.normal(120, 10, home.size).round(), sex=rng.choice(["f", "m"], 400)[home])
    table["age"] = table["age"].mask((rng.random(400) < 0.06)[home])
    after = mv.protect(table, seed=1).data
    assert after.groupby("patient_id")["group"].nunique().max() == 1


def test_a_date_rule_is_seen_in_different_values() -> None:
    rng = np.random.default_rng(0)
    stage = np.full(1_000, np.nan)
    stage[:60], stage[300:380] = 1, rng.integers(2, 8, 80)
    day = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 28, 1_000), "D"))
    table = pd.DataFrame({"date": day.where(np.arange(1_000) < 300), "stage": stage})
    table = table.assign(wage=rng.lognormal(7, 0.6, 1_000).round(), debt=rng.lognormal(8, 1, 1_000).round())
    release = mv.protect(table, seed=1)
    assert "stage" not in release.computed
    assert release.data["stage"].nunique() > 3


@pytest.mark.parametrize("share", [0.003, 0.03])
def test_a_product_with_gaps_stays_within_its_range(share: float) -> None:
    rng = np.random.default_rng(0)
    pieces, hours = rng.integers(1, 50, 1_500).astype(float), rng.integers(5, 60, 1_500).astype(float)
    table = pd.DataFrame({"pieces": pieces, "hours": hours, "pay": pieces * hours, "x": rng.lognormal(5, 0.7, 1_500)})
    table = table.mask(rng.random(table.shape) < share)
    after = mv.protect(table, seed=1).data
    for name in ("pieces", "hours", "pay"):
        assert after[name].between(table[name].min(), table[name].max()).sum() == after[name].notna().sum()
        assert after[name].std() == pytest.approx(table[name].std(), rel=0.1)
        assert (after[name].dropna() % 1 == 0).all()


def test_methods_that_only_mask_rows_leave_gaps_of_units_and_say_so_once() -> None:
    rng = np.random.default_rng(0)
    home = np.repeat(np.arange(300), 3)
    table = pd.DataFrame({"home_id": home, "rent": rng.lognormal(6, 0.4, 300).round()[home]})
    table = table.assign(tax=rng.lognormal(4, 1, 300).round()[home], wage=rng.lognormal(7, 1, home.size).round())
    table["bonus"] = np.where(rng.random(home.size) < 0.3, np.nan, rng.lognormal(5, 1, home.size).round())
    release = mv.protect(table, "swap", unit="home_id", seed=1)
    assert release.data["bonus"].isna().equals(table["bonus"].isna())
    assert not said(release, WENT)
    assert said(release, "they stay in their places")


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_total_is_not_below_its_known_parts(share: float) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.lognormal(5, 0.7, (1_500, 3)).round(), columns=list("abc"))
    table["total"] = table.sum(axis=1)
    table = table.assign(x=rng.lognormal(4, 1, 1_500).round()).mask(rng.random((1_500, 5)) < share)
    release = mv.protect(table, seed=1)
    assert release.rules == ["total = a + b + c"]
    after = release.data
    assert not (after["total"] < after[list("abc")].fillna(0).sum(axis=1)).any()
