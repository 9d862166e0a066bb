"""Missing and coded cells go to other rows with all that is protected in theirs: nobody's gaps are in clear."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gaps import patterns

import microveil as mv

ROWS = 1_200
NUMBERS = ["wage", "rent", "debt"]


def people(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Women leave their debt open more often, the rich refuse their wage (-9); who pays no rent has no landlord."""
    rng = np.random.default_rng(seed)
    wage = rng.lognormal(7, 0.6, rows)
    table = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows),
            "wage": wage.round(),
            "rent": (0.3 * wage * rng.lognormal(0, 0.3, rows)).round(),
            "debt": rng.lognormal(8, 1, rows).round(),
            "landlord": rng.choice(["firm", "person"], rows),
        }
    )
    none = rng.random(rows) < 0.2
    table.loc[none, ["rent", "landlord"]] = [np.nan, None]
    table.loc[rng.random(rows) < np.where(table["sex"] == "f", 0.4, 0.1), "debt"] = np.nan
    table.loc[rng.random(rows) < np.where(wage > np.median(wage), 0.3, 0.05), "wage"] = -9
    return table


def open_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Where numbers are missing or coded."""
    return table[NUMBERS].isna() | (table[NUMBERS] == -9)


def together(table: pd.DataFrame) -> Counter[tuple[bool, ...]]:
    """Which cells are missing or coded together, and in how many rows."""
    return patterns(table[NUMBERS].mask(open_cells(table)))


def told(before: pd.DataFrame, after: pd.DataFrame) -> float:
    """By how much more than chance a row's gaps tell those of the record in its place, in the worst column."""
    gains = []
    for name in NUMBERS:
        old, new = (open_cells(table)[name] for table in (before, after))
        chance = old.mean() * new.mean() + (1 - old.mean()) * (1 - new.mean())
        gains.append(((old == new).mean() - chance) / (1 - chance))
    return max(gains)


FRAMES = {"pandas": lambda t: t, "polars": pl.from_pandas, "arrow": lambda t: pl.from_pandas(t).to_arrow()}


@pytest.mark.parametrize("library", FRAMES)
def test_a_row_has_nobodys_gaps(library: str) -> None:
    before = people()
    release = mv.protect(FRAMES[library](before), seed=1)
    after: Any = release.data
    after = after if library == "pandas" else (pl.from_arrow(after) if library == "arrow" else after).to_pandas()
    assert told(before, after) < 0.1, "two standard errors are .06"
    assert together(after) == together(before)
    assert any("they went to other rows" in said for said in release.warnings)


def test_arrays_and_repeated_calls() -> None:
    before = people()[NUMBERS].replace(-9, np.nan).to_numpy()
    first, again, other = (mv.protect(before, seed=seed).data for seed in (1, 1, 2))
    assert np.array_equal(first, again, equal_nan=True)
    assert not np.array_equal(np.isnan(first), np.isnan(other))
    assert not np.array_equal(np.isnan(first), np.isnan(before))
    assert np.array_equal(np.isnan(first).sum(axis=0), np.isnan(before).sum(axis=0))


def test_who_leaves_cells_open_is_known_as_well_as_before() -> None:
    before = people(4_000)
    after = mv.protect(before, seed=1).data
    for group in ("sex", "landlord"):
        shares = [open_cells(table).groupby(table[group].fillna("none")).mean() for table in (before, after)]
        assert np.abs(shares[0] - shares[1]).to_numpy().max() < 0.03
    assert ((after["landlord"].isna()) == after["rent"].isna()).mean() > 0.95, "one level goes with the gaps"
    rents = [table["rent"].groupby(table["wage"] == -9).mean() / table["rent"].std() for table in (before, after)]
    assert np.abs(rents[0] - rents[1]).max() < 0.1


@pytest.mark.parametrize("role", ["public", "strata"])
def test_beside_what_is_in_clear_gaps_go_to_rows_that_are_alike(role: str) -> None:
    before = people()
    release = mv.protect(before, **{role: "sex"}, seed=1)
    after = release.data
    assert (after["sex"] == before["sex"]).all()
    for sex in "fm":
        own = [table[table["sex"] == sex] for table in (before, after)]
        assert together(own[1]) == together(own[0])
        assert told(*own) < 0.12
    assert not any("stay in their places" in said for said in release.warnings)


def test_gaps_of_rows_that_are_like_no_other_stay_and_are_counted() -> None:
    before = people()
    before["age"] = np.arange(ROWS, dtype=float) ** 1.5
    release = mv.protect(before, public="age", seed=1)
    assert open_cells(release.data).equals(open_cells(before))
    alone = int(open_cells(before).any(axis=1).sum())
    assert any(f"in {alone} rows, which fewer than 10 are like" in said for said in release.warnings)
    assert not any("they went to other rows" in said for said in release.warnings)


def test_methods_that_do_not_exchange_leave_gaps_where_they_are_and_say_so() -> None:
    before = people()[NUMBERS]
    release = mv.protect(before, "pca", seed=1)
    assert open_cells(release.data).equals(open_cells(before))
    assert any("they stay in their places" in said and "shuffle_rows" in said for said in release.warnings)


def test_assess_sees_gaps_that_are_where_they_were() -> None:
    before = people()
    of_all, of_numbers = (
        mv.assess(before, release.data, measures=["dbrl"]).notes
        for release in (mv.protect(before, seed=1), mv.protect(before, "pca", keep=["sex", "landlord"], seed=1))
    )
    assert not any("in the same rows of both files" in note for note in of_all)
    assert any("in the same rows of both files: wage, rent, debt;" in note for note in of_numbers)


def test_words_for_missing_cells_go_along(tmp_path: Path) -> None:
    """Left where they were, they would tell which gaps have not moved."""
    before = people()
    words = np.random.default_rng(1).choice(["", "NA", "."], ROWS)
    text = before.assign(debt=[w if np.isnan(x) else f"{x:.0f}" for x, w in zip(before["debt"], words, strict=True)])
    text.to_csv(tmp_path / "in.csv", index=False)
    mv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", seed=1)
    old, new = (
        pd.read_csv(tmp_path / name, dtype=str, keep_default_na=False)["debt"] for name in ("in.csv", "out.csv")
    )
    counts = [Counter(cell for cell in cells if not cell.isdigit()) for cells in (old, new)]
    assert counts[0] == counts[1]
    both = (~old.str.isdigit()) & (~new.str.isdigit())
    assert (old[both] == new[both]).mean() < 0.6


def test_shuffled_rows_have_their_own_words(tmp_path: Path) -> None:
    before = people().assign(wage=lambda t: t["wage"].replace(-9, np.nan))
    before.to_csv(tmp_path / "in.csv", index=False, na_rep="NA")
    mv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", seed=1, shuffle_rows=True)
    after = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    for name in NUMBERS:
        assert (after[name] == "NA").sum() == before[name].isna().sum()
        assert not (after[name] == "").any()


def test_what_is_computed_anew_is_missing_where_its_source_is() -> None:
    rng = np.random.default_rng(2)
    band = rng.integers(0, 40, ROWS)
    before = people().assign(month=band.astype(float), price=rng.permutation(1_000)[band].astype(float))
    before.loc[:100, ["month", "price"]] = np.nan
    release = mv.protect(before, seed=1)
    assert "price" in release.computed
    after = release.data
    assert (after["price"].isna() == after["month"].isna()).all()
    assert after["price"].isna().sum() == 101
    known = after.dropna(subset="month")
    assert (known["price"] == before.groupby("month")["price"].first().loc[known["month"]].to_numpy()).all()


def test_a_release_that_is_stored_does_not_know_where_gaps_were() -> None:
    release = mv.protect(people(), seed=1)
    assert release.places
    assert pickle.loads(pickle.dumps(release)).places == {}


@pytest.mark.parametrize("public", [None, "sex"])
def test_blocks_have_the_rows_of_memory(public: str | None, tmp_path: Path) -> None:
    before = pl.from_pandas(people(3_000))
    before.write_parquet(tmp_path / "in.parquet")
    mv.protect_file(
        tmp_path / "in.parquet", tmp_path / "out.parquet", engine="stream", memory="100MB", public=public, seed=1
    )
    wanted = mv.protect(before, public=public, seed=1).data
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.cast(dict(wanted.schema)).equals(wanted)


# --- Units of several rows


def homes(seed: int = 0) -> pd.DataFrame:
    """A rent and a town of each household, a wage of each person."""
    rng = np.random.default_rng(seed)
    home = np.repeat(np.arange(400), rng.integers(2, 5, 400))
    table = {"household_id": home + 1_000, "rent": rng.lognormal(6, 0.4, 400).round()[home]}
    table |= {"town": rng.choice(list("abcd"), 400)[home], "wage": rng.lognormal(7, 0.5, home.size).round()}
    return pd.DataFrame(table)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("kind", ["float", "Int64", "category"])
def test_a_gap_does_not_tear_a_column_from_its_units(library: str, kind: str) -> None:
    before = homes()
    before.loc[::90, "rent"] = np.nan
    before.loc[5::90, "town"] = None
    before = before.astype({"town": "category"} if kind == "category" else {"rent": kind})
    release = mv.protect(FRAMES[library](before), seed=1)
    after: Any = release.data
    after = after if library == "pandas" else (pl.from_arrow(after) if library == "arrow" else after).to_pandas()
    if library == "pandas":
        assert list(after.dtypes.astype(str)) == list(before.dtypes.astype(str))
    units = after.groupby("household_id")
    for name in ("rent", "town"):
        assert units[name].nunique().max() == 1, "two values of one unit"
        assert after[name].isna().sum() == before[name].isna().sum()
        assert (after[name].isna().to_numpy() & before[name].isna().to_numpy()).sum() <= 3
        assert units[name].apply(lambda cells: cells.isna().all()).sum() == 0, "in some rows only, as before"


def test_what_one_row_of_a_unit_has_is_not_the_units() -> None:
    before = homes()
    before["pension"] = np.where(before.groupby("household_id").cumcount() == 0, before["wage"] // 3, np.nan)
    after = mv.protect(before, seed=1).data
    assert after["pension"].isna().sum() == before["pension"].isna().sum()
    assert after.groupby("household_id")["pension"].count().max() == 1


def test_units_of_arrays_and_of_methods_that_do_not_exchange() -> None:
    before = homes().drop(columns="town")
    before["rent"] = before["rent"].mask(np.arange(len(before)) % 90 == 0)
    array = mv.protect(before.to_numpy(float), unit=0, seed=1).data
    assert pd.DataFrame(array).groupby(0)[1].nunique().max() == 1
    assert np.isnan(array[:, 1]).sum() == before["rent"].isna().sum()
    before["tax"] = before["rent"] // 7 + before["household_id"] % 5
    other = mv.protect(before, "noise", unit="household_id", seed=1).data
    assert other["rent"].isna().equals(before["rent"].isna())
    assert other.groupby("household_id")["rent"].nunique().max() == 1
