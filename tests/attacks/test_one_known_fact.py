"""The intruder knows one fact that few have: the household of eleven, the only one with a disease, the richest of all.

What few records have in common must not lead to the rest of their record: a household whose size nobody else has, a
label or a flag of one to nine records, an amount that one record has, the one value that is far above all others. The
fact itself may be seen in a release (a flag has known values, sizes of units stay), but in a row that tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fixtures.make_tables import DAY_OF_SURVEY, completed_years, household_survey

import microveil as mv

OWN = {"sex": "m", "region": "f", "edu": "hi", "job": "z"}


def persons(seed: int, few: int, rows: int = 400) -> pd.DataFrame:
    """Independent columns, but for the first few records, which are all alike and far out."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows),
            "region": rng.choice(list("abcdef"), rows),
            "edu": rng.choice(["lo", "mid", "hi"], rows, p=[0.3, 0.5, 0.2]),
            "job": rng.choice(["w", "x", "y", "z"], rows),
            "income": np.exp(rng.normal(7, 0.6, rows)).round(),
            "hours": rng.normal(38, 6, rows).round(),
        }
    )
    for name, label in OWN.items():
        frame.loc[: few - 1, name] = label
    frame.loc[: few - 1, "income"] = 9_000.0 + np.arange(few)
    frame.loc[: few - 1, "hours"] = 60.0
    return frame


def label(frame: pd.DataFrame, few: int) -> pd.DataFrame:
    religion = np.random.default_rng(few).choice(["A", "B", "C"], len(frame))
    religion[:few] = "D"
    return frame.assign(fact=religion)


def yes_or_no(frame: pd.DataFrame, few: int) -> pd.DataFrame:
    return frame.assign(fact=np.where(np.arange(len(frame)) < few, "yes", "no"))


def flag(frame: pd.DataFrame, few: int) -> pd.DataFrame:
    return frame.assign(fact=(np.arange(len(frame)) < few).astype(int))


FACTS: dict[str, tuple[Callable[[pd.DataFrame, int], pd.DataFrame], Any]] = {
    "label": (label, "D"),
    "yes or no": (yes_or_no, "yes"),
    "flag": (flag, 1),
}


@pytest.mark.quick("*-1", "label-*")
@pytest.mark.parametrize("few", [1, 3, 9])
@pytest.mark.parametrize("kind", FACTS)
def test_what_few_have_does_not_lead_to_the_rest_of_them(kind: str, few: int) -> None:
    """Flags of one record had its income and hours in every draw; labels of few had its region in more than half."""
    make, known = FACTS[kind]
    found = []
    for seed in range(6):
        out = mv.protect(make(persons(seed, few), few), seed=seed).data
        theirs = out[out["fact"] == known]
        assert len(theirs) == few
        ranks = out[["income", "hours"]].rank(pct=True).loc[theirs.index]
        alike = pd.DataFrame({name: theirs[name] == own for name, own in OWN.items() if name != "sex"})
        found.append([*ranks.mean(), *alike.mean()])
    incomes, hours, *labels = np.mean(found, axis=0)
    assert max(incomes, hours) <= 0.85, "the mean rank of six draws that know nothing is .5, with an error of .12"
    assert np.mean(labels) <= 0.45, "one in five by chance"


@pytest.mark.parametrize("few", [1, 2, 4])
def test_an_amount_that_few_have_is_not_released(few: int) -> None:
    """It was, to the cent, where all others have none of it: such a column became no one's."""
    frame = persons(1, few)
    prize = np.zeros(len(frame))
    prize[:few] = np.round(np.random.default_rng(few).uniform(1e4, 1e6, few), 2)
    release = mv.protect(frame.assign(prize=prize), seed=1)
    assert not set(release.data["prize"]) & set(prize[:few])
    assert any("'prize'" in said and "one value" in said for said in release.warnings)


@pytest.mark.parametrize("times", [3, 30])
def test_the_richest_is_not_found_with_the_rest_of_the_record(times: int) -> None:
    """The top income stood beside its own region in two of three draws: means of groups are those of one record."""
    found = []
    for seed in range(8):
        frame = persons(seed, 1)
        frame.loc[0, "income"] = times * frame["income"][1:].max()
        out = mv.protect(frame, seed=seed).data
        richest = out.loc[out["income"].idxmax()]
        found.append([richest["region"] == OWN["region"], (out["hours"] < richest["hours"]).mean() > 0.97])
    assert np.mean(found, axis=0).max() <= 0.5


def with_eleven() -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """A survey with one household of eleven women who all earn most: what its rows are like, its size gives away."""
    survey, count = household_survey(3, 300), 11
    birth = pd.Series(pd.Timestamp("1999-02-03") + pd.to_timedelta(137 * np.arange(count), unit="D"))
    home = survey.iloc[:count].reset_index(drop=True).assign(
        household_id=99_999, person_no=np.arange(1, 12), household_size=count, children_under_14=0, rent=2_500.0,
        weight=900.0, relation=["head", *["child"] * 10], sex="f", birth=birth, status="employed",
        age=completed_years(birth, DAY_OF_SURVEY), wage=5_000.0 + np.arange(count), other_income=0.0,
        stratum="W1", region="west",
    )  # fmt: skip
    home["income"] = home["wage"]
    home["household_income"] = home["income"].sum()
    whole = pd.concat([survey.iloc[:400], home, survey.iloc[400:]], ignore_index=True)
    return whole, (whole["household_id"] == 99_999).to_numpy()


def test_a_household_that_is_found_by_its_size_tells_nothing_else() -> None:
    """In each draw nearly all of the eleven were women, employed, with the highest wages: who knew the size saw it."""
    survey, theirs = with_eleven()
    found = []
    for seed in range(3):
        out = mv.protect(survey, seed=seed).data
        ranks = out[["rent", "wage"]].rank(pct=True)[theirs].mean()
        found.append([*ranks, (out["status"] == "employed")[theirs].mean()])
    rent, wages, employed = np.mean(found, axis=0)
    assert wages <= 0.75
    assert employed <= 0.7
    assert rent <= 0.9
