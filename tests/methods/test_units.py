"""Units with several rows: what belongs to the unit is protected once, and stays the same in all its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gaps import patterns

import microveil as mv
from microveil.core.linalg import first_canonical_pair
from microveil.errors import DataError, ParameterError
from microveil.report.reporter import pair_of


def households(seed: int = 1, count: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    members = np.repeat(np.arange(count), rng.integers(1, 5, count))
    rent, space = rng.gamma(3, 300, count).round()[members], rng.gamma(4, 25, count).round()[members]
    wage = (2 * rent + rng.gamma(2, 500, members.size)).round()
    other = rng.gamma(2, 50, members.size).round()
    region = rng.choice(["n", "s"], count)[members]
    return pd.DataFrame(
        {
            "household": members,
            "region": region,
            "rent": rent,
            "space": space,
            "wage": wage,
            "other": other,
            "income": wage + other,
        }
    )


def within(frame: pd.DataFrame, *names: str) -> int:
    """The most values that a column has in one household."""
    return int(frame.groupby("household")[list(names)].nunique(dropna=False).max().max())


@pytest.mark.parametrize("method", ["veil", "pca", "noise", "rank_swap"])
def test_columns_of_units_have_one_value_in_each(method: str) -> None:
    data = households()
    row_by_row = mv.protect(data, method, keep="region", kinds={"household": "count"}, seed=1)
    assert within(row_by_row.data.assign(household=data["household"]), "rent") > 1
    release = mv.protect(data, method, unit="household", keep="region", seed=1)
    assert within(release.data, "rent", "space") == 1
    assert (release.data["rent"] != data["rent"]).mean() > 0.5
    assert (release.data["household"] != data["household"]).mean() > 0.9, "units are numbered anew"
    numbers = pd.DataFrame({"old": data["household"], "new": release.data["household"]}).drop_duplicates()
    assert numbers["old"].is_unique
    assert numbers["new"].is_unique
    assert list(release.dose) == ["rent", "space", "wage", "other", "income"]
    assert release.recipe()["unit"] == "household"
    assert np.allclose(release.data["income"], release.data["wage"] + release.data["other"], rtol=1e-9)


def test_moments_are_those_of_units_and_of_rows() -> None:
    data = households()
    release = mv.protect(data, "pca", unit="household", keep=["region", "household"], seed=1)
    first = (
        data.groupby("household")[["rent", "space"]].first(),
        release.data.groupby("household")[["rent", "space"]].first(),
    )
    assert np.allclose(first[0].mean(), first[1].mean(), rtol=1e-9)
    assert np.allclose(first[0].cov(), first[1].cov(), rtol=1e-9)
    rows = ["wage", "other"]
    assert np.allclose(data[rows].mean(), release.data[rows].mean(), rtol=1e-9)
    assert np.allclose(data[rows].cov(), release.data[rows].cov(), rtol=1e-9)
    for statistic in ("mean of units", "covariance of units", "mean", "covariance"):
        assert release.kept[statistic] < 1e-9


@pytest.mark.parametrize("method", ["veil", "pca"])
def test_what_belonged_together_does_again(method: str) -> None:
    data = households(count=800)
    out = mv.protect(data, method, unit="household", keep="region", seed=2).data
    before, after = (frame["rent"].corr(frame["wage"]) for frame in (data, out))
    assert before > 0.8
    # The noise of the dealing is that of a correlation over as many units, as units are what was moved.
    assert after == pytest.approx(before, abs=4 / np.sqrt(800))


def test_the_account_counts_what_came_out() -> None:
    data = households()
    release = mv.protect(data, unit="household", seed=1)
    for name, dose in release.dose.items():
        achieved = 1 - data[name].corr(release.data[name])
        if name in ("wage", "other", "income"):
            assert dose.achieved == pytest.approx(np.clip(achieved, 0, 2), abs=1e-9)
            assert dose.cells_changed == pytest.approx((data[name] != release.data[name]).mean())
    lines = {line.rule: (line.before, line.after) for line in release.audit or []}
    assert lines["income = wage + other"] == (0, 0)


def test_the_same_seed_gives_the_same_release_and_another_frame_the_same_values() -> None:
    data = households()
    one, again = (mv.protect(data, unit="household", seed=5).data for _ in range(2))
    assert one.equals(again)
    assert pl.from_pandas(one).equals(mv.protect(pl.from_pandas(data), unit="household", seed=5).data)
    numbers = data.drop(columns="region")
    array = mv.protect(numbers.to_numpy(float), unit=0, seed=5).data
    assert within(pd.DataFrame(array, columns=numbers.columns), "rent", "space") == 1


def test_holes_and_codes_go_to_another_unit_of_the_size() -> None:
    data = households().astype({"rent": float, "wage": float})
    data.loc[data["household"] % 7 == 0, "rent"] = np.nan
    data.loc[::13, "wage"] = np.nan
    data.loc[::17, "other"] = -9
    data = data.drop(columns="income")
    out = mv.protect(data, unit="household", seed=1).data
    sizes = [table.groupby("household")["space"].transform("size") for table in (data, out)]
    coded = [table["other"] == -9 for table in (data, out)]
    assert [sorted(size[hole]) for size, hole in zip(sizes, coded, strict=True)][1] == sorted(sizes[0][coded[0]])
    assert patterns(out) == patterns(data)
    for name in ("rent", "wage"):
        assert (out[name].isna() == data[name].isna()).mean() < 0.9
    assert within(out, "rent") == 1


def test_codes_of_units_are_no_values_in_figures_and_reports() -> None:
    data = households()
    data["rent"] = data["rent"].where(data["household"] % 5 != 0, -9)
    both, _ = pair_of(mv.protect(data, "noise", unit="household", keep="region", seed=1))
    rent = both.original.columns[both.names.index("rent")]
    assert np.isnan(rent).sum() == (data["household"] % 5 == 0).sum() > 0
    assert not (rent == -9).any()


def test_strata_are_those_of_units() -> None:
    data = households()
    release = mv.protect(data, "pca", unit="household", strata="region", seed=1)
    for frame_before, frame_after in [(data, release.data)]:
        firsts = [f.groupby("household").first().groupby("region")["rent"].mean() for f in (frame_before, frame_after)]
        assert np.allclose(firsts[0], firsts[1], rtol=1e-9)
    data["shift"] = np.arange(len(data)) % 2
    with pytest.raises(ParameterError, match="'shift', which is public, a weight or a stratum, differs within units"):
        mv.protect(data, "pca", unit="household", strata="shift", keep="region", seed=1)


def test_units_of_one_row_are_rows() -> None:
    data = households().drop_duplicates("household").reset_index(drop=True)
    release = mv.protect(data, unit="household", keep="household", seed=1)
    assert any(warning.startswith("unit: no column is the same") for warning in release.warnings)
    plain = mv.protect(data, keep="household", seed=1)
    assert release.data.equals(plain.data)


def test_the_column_of_the_units_is_no_identifier_to_be_dropped() -> None:
    data = households().rename(columns={"household": "household_id"})
    data["email"] = [f"p{i}@example.org" for i in range(len(data))]
    out = mv.protect(data, unit="household_id", seed=1).data
    assert "household_id" in out
    assert "email" not in out


def test_amounts_that_were_read_as_text_are_not_released_with_units_either() -> None:
    data = households().assign(bonus=lambda frame: [f"{wage:.0f},50" for wage in frame["wage"]])
    with pytest.raises(DataError, match="'bonus' is text, but most of its cells look like numbers"):
        mv.protect(data, unit="household", seed=1)


def test_bad_units_are_refused() -> None:
    data = households()
    with pytest.raises(ParameterError, match="unit: there is no column 'hose'"):
        mv.protect(data, unit="hose")
    with pytest.raises(ParameterError, match="unit: takes one column"):
        mv.protect(data, unit=["household", "region"])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unit: column 'household' has missing cells"):
        mv.protect(data.astype({"household": float}).mask(data["household"] == 3), unit="household")


def test_a_report_is_written(tmp_path: Path) -> None:
    release = mv.protect(households(), unit="household", seed=1, shuffle_rows=True)
    for audience in ("internal", "public"):
        release.report(tmp_path / f"{audience}.html", audience=audience)
        assert "each unit counts once" in (tmp_path / f"{audience}.html").read_text()


def test_the_first_canonical_pair_is_correlated_most() -> None:
    rng = np.random.default_rng(7)
    left = rng.standard_normal((500, 3))
    right = np.column_stack([left @ [1, -2, 0.5] + rng.standard_normal(500), rng.standard_normal((500, 2))])
    right = np.column_stack([right, right[:, 0] + right[:, 1]])  # collinear
    pair = first_canonical_pair(left, right)
    assert np.corrcoef(left @ pair.left, right @ pair.right)[0, 1] == pytest.approx(pair.correlation, abs=1e-9)
    for _ in range(200):
        other = np.corrcoef(left @ rng.standard_normal(3), right @ rng.standard_normal(4))[0, 1]
        assert abs(other) <= pair.correlation + 1e-9
    assert first_canonical_pair(np.ones((20, 1)), np.ones((20, 2))).correlation == 0


def test_labels_of_units_and_of_rows_that_never_meet_do_not_meet_in_a_release() -> None:
    rng = np.random.default_rng(4)
    patient = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    sex = rng.choice(["f", "m"], 400)[patient]
    reason = rng.choice(["heart", "lung", "birth"], patient.size, p=[0.5, 0.3, 0.2])
    data = pd.DataFrame(
        {
            "patient_id": patient,
            "sex": sex,
            "height": rng.normal(170, 9, 400).round()[patient],
            "weight_kg": rng.normal(70, 9, 400).round()[patient],
            "reason": np.where((reason == "birth") & (sex == "m"), "heart", reason),
            "cost": rng.lognormal(7, 1, patient.size).round(2),
            "days": rng.poisson(4, patient.size),
        }
    )
    for seed in range(3):
        out = mv.protect(data, seed=seed).data
        assert within(out.rename(columns={"patient_id": "household"}), "sex", "height", "weight_kg") == 1
        assert not ((out["sex"] == "m") & (out["reason"] == "birth")).any()
        assert out["reason"].value_counts().to_dict() == data["reason"].value_counts().to_dict()


def test_a_year_that_the_whole_table_shares_belongs_to_no_unit() -> None:
    data = households().drop(columns=["region", "rent", "space"]).assign(year=2_024)
    release = mv.protect(data, unit="household", seed=1)
    assert (release.data["year"] == 2_024).all()
    assert (release.data["wage"] != data["wage"]).mean() > 0.9


@pytest.mark.parametrize("method", ["veil", "pca"])
def test_units_in_larger_units(method: str) -> None:
    """Patients in hospitals: what is the hospital's is one value in each, and so is what is the patient's."""
    rng = np.random.default_rng(3)
    hospital, patient = np.repeat(np.arange(60), 10), np.repeat(np.arange(300), 2)
    data = pd.DataFrame({"hospital_id": hospital + 40, "patient_id": patient + 7_000})
    data["beds"], data["staff"] = rng.gamma(3, 90, 60).round()[hospital], rng.gamma(3, 200, 60).round()[hospital]
    data["height"], data["weight"] = rng.normal(170, 9, 300).round(1)[patient], rng.normal(75, 9, 300).round(1)[patient]
    data["cost"], data["days"] = rng.lognormal(6, 1, 600).round(2), rng.lognormal(2, 1, 600).round(1)
    out = mv.protect(data, method, seed=1).data
    assert (out.groupby("hospital_id")[["beds", "staff"]].nunique() == 1).all().all()
    assert (out.groupby("patient_id")[["height", "weight", "hospital_id"]].nunique() == 1).all().all()
    assert out["hospital_id"].nunique() == 60
    assert out["patient_id"].nunique() == 300
    for name in ("beds", "height", "cost"):
        assert (out[name] != data[name]).mean() > 0.9
