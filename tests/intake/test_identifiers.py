"""Columns that look like direct identifiers: told, and dropped only on request."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import microveil as mv
from microveil.errors import ParameterError
from microveil.intake.kinds import find_kinds, identifier_reason
from microveil.io.frames.dataframes import open_frame

ROWS = 40
RNG = np.random.default_rng(1)

LOOKS = {
    "who answered": ([f"r{i * 7919 % 1000:03d}" for i in range(ROWS)], "its text is different in every row"),
    "contact": ([f"p{i % 9}@example.org" for i in range(ROWS)], "its cells look like e-mail addresses"),
    "call": ([f"+49 30 55{i % 9}0 12" for i in range(ROWS)], "its cells look like telephone numbers"),
    "account": ([f"DE89 3704 0044 0532 0130 0{i % 9}" for i in range(ROWS)], "its cells look like bank accounts"),
    "token": ([f"123e4567-e89b-12d3-a456-42661417400{i % 9}" for i in range(ROWS)], "universal identifiers"),
    "LastName": (["Ng", "Doe"] * (ROWS // 2), "its name says so"),
    "person_id": ((RNG.permutation(ROWS) * 17).tolist(), "its name says so"),
    "HHID": (RNG.integers(1, 9, ROWS).tolist(), "its name says so"),
    "line": (list(range(100, 100 + ROWS)), "it numbers the rows"),
    "tens": (list(range(0, 10 * ROWS, 10)), "it numbers the rows"),
}
NONE = {
    "wages": RNG.lognormal(8, 1, ROWS).tolist(),
    "turnover": (RNG.permutation(ROWS) * 31).tolist(),  # different in every row, as amounts are
    "paid": RNG.integers(0, 2, ROWS).tolist(),
    "region": ["north", "south"] * (ROWS // 2),
    "constant": [5] * ROWS,
}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_what_looks_like_one(name: str, make: type) -> None:
    cells, reason = LOOKS[name]
    assert reason in identifier_reason(open_frame(make({name: cells})), name)


@pytest.mark.parametrize("name", NONE)
def test_what_does_not(name: str) -> None:
    assert identifier_reason(open_frame(pl.DataFrame({name: NONE[name]})), name) == ""


def test_few_rows_say_nothing() -> None:
    assert identifier_reason(open_frame(pl.DataFrame({"x": ["a", "b", "c"]})), "x") == ""
    assert identifier_reason(open_frame(pl.DataFrame({"x": [1, 2, 3]})), "x") == ""


def table() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    return pl.DataFrame(
        {
            "person_id": rng.permutation(200),
            "email": [f"p{i}@example.org" for i in range(200)],
            "age": rng.integers(18, 80, 200),
            "wages": rng.lognormal(7, 1, 200),
            "rent": rng.lognormal(6, 1, 200),
        }
    )


def test_they_are_kept_if_somebody_asks() -> None:
    release = mv.protect(table(), keep=["person_id", "email"], seed=1)
    assert release.data.columns == table().columns
    assert release.data.select("person_id", "email").equals(table().select("person_id", "email"))
    assert release.in_clear == ("person_id", "email")
    assert release.unique_in_clear == 1.0
    assert mv.describe(table()).identifiers.keys() == {"person_id", "email"}


@pytest.mark.parametrize("make", [lambda f: f, lambda f: f.to_pandas(), lambda f: f.to_arrow()])
def test_they_are_left_out(make: object) -> None:
    data = make(table())  # type: ignore[operator]
    release = mv.protect(data, seed=1)
    assert type(release.data) is type(data)
    names = list(getattr(release.data, "column_names", getattr(release.data, "columns", [])))
    assert names == ["age", "wages", "rent"]
    for name in ("person_id", "email"):
        assert any(f"left out of the release: column '{name}'" in warning for warning in release.warnings)
    by_name = mv.protect(data, drop=["person_id", "email"], seed=1)
    assert by_name.data.equals(release.data)
    assert "dropped, on request: person_id, email" in by_name.warnings
    assert by_name.recipe()["drop"] == ["person_id", "email"]
    with pytest.warns(DeprecationWarning, match="drop_identifiers has no effect any more, leave it out"):
        as_before = mv.protect(data, drop_identifiers=True, seed=1)
    assert as_before.data.equals(release.data)
    assert sum("drop_identifiers" in warning for warning in as_before.warnings) == 1
    assert "email" in (data.columns if hasattr(data, "columns") and not hasattr(data, "column_names") else ["email"])


def test_what_is_dropped_has_no_role() -> None:
    with pytest.raises(ParameterError, match="there is no column 'age'"):
        mv.protect(table(), drop="age", strata="age")
    with pytest.raises(ParameterError, match="drop: there is no column 'agee'; did you mean 'age'"):
        mv.protect(table(), drop="agee")
    with pytest.raises(ParameterError, match="drop: the columns of an array"):
        mv.protect(np.random.default_rng(1).random((50, 3)), drop=[0])


def test_names_that_are_no_text_can_be_dropped() -> None:
    data = pd.DataFrame(np.random.default_rng(3).random((60, 4)), columns=[2019, 2020, "a", ("b", 1)])
    release = mv.protect(data, drop=[2020], seed=1)
    assert list(release.data.columns) == [2019, "a", ("b", 1)]


def test_in_fifty_tables_identifiers_are_found_and_in_fifty_without_none_is() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(60, 600))
        plain = pd.DataFrame(
            {
                "income": np.round(rng.lognormal(7, 1, rows), 2),
                "turnover": rng.permutation(10 * rows)[:rows] + 1_000,
                "paid": rng.integers(0, 900, rows),
                "town": rng.choice([f"town {i}" for i in range(9)], rows),
                "valid": rng.random(rows) < 0.5,
            }
        )
        kinds = {name: found.kind for name, found in find_kinds(open_frame(plain), {}).items()}
        assert not {"identifier", "unit", "free text"} & set(kinds.values()), seed
        shared = rng.permutation(np.arange(rows) // 3)
        named = plain.assign(
            record=np.arange(rows) + 17,
            person_id=rng.permutation(10 * rows)[:rows],
            code=[f"{a:x}-{b:x}" for a, b in zip(rng.permutation(rows), rng.integers(0, 999, rows), strict=True)],
            mail=[f"p{number}@example.org" for number in rng.permutation(rows)],
            family_id=shared + 500,
            patient=[f"patient {number}" for number in rng.permutation(rows)],
        )
        found = {name: found.kind for name, found in find_kinds(open_frame(named), {}).items()}
        expected = dict.fromkeys(["record", "person_id", "code", "mail", "patient"], "identifier")
        assert found == {**kinds, **expected, "family_id": "unit"}, seed


WHO = (
    "subject participant respondent case person household pupil firm subj_no pat_nr Kundennummer nhs_number mrn Patient"
)


@pytest.mark.parametrize("name", WHO.split())
@pytest.mark.parametrize("text", [False, True])
def test_columns_that_are_called_like_persons_number_them(name: str, text: bool) -> None:
    rng = np.random.default_rng(1)
    numbers = np.repeat(rng.permutation(9_000)[:100] + 1_000, 4)
    cells = [f"C{number:05d}" for number in numbers] if text else numbers
    data = pd.DataFrame({name: cells, "x": rng.normal(size=400), "y": rng.normal(size=400)})
    assert find_kinds(open_frame(data), {})[name].kind == "unit"
    few = data.assign(**{name: rng.integers(1, 5, 400)})
    assert find_kinds(open_frame(few), {})[name].kind == "count", "the second person of four is no id"
    visits = data.assign(**{name: np.minimum(rng.geometric(0.25, 400) - 1, 30)})
    assert find_kinds(open_frame(visits), {})[name].kind == "count", "how often somebody went to one"


def test_every_number_between_two_once_is_an_identifier() -> None:
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.permutation(400) + 1_001, "y": rng.normal(size=400), "z": rng.normal(size=400)})
    assert find_kinds(open_frame(data), {})["x"].kind == "identifier"
    data["x"] += data["x"] > 1_200
    assert find_kinds(open_frame(data), {})["x"].kind == "count"
