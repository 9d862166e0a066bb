"""Dependencies, impossible pairs and date rules: told by describe, edited in the dictionary, obeyed by protect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fixtures.make_tables import hospital_visits

import microveil as mv
from microveil.cli.main import main
from microveil.errors import DataError, ParameterError


def table(rows: int = 1_200) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    code = rng.integers(0, 12, rows)
    sex = rng.choice(["f", "m"], rows)
    birth = pd.Series(pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 15_000, rows), unit="D"))
    return pd.DataFrame(
        {
            "icd": [f"{'ABC'[c // 4]}{c:02d}" for c in code],
            "chapter": ["ABC"[c // 4] for c in code],
            "sex": sex,
            "pregnant": np.where((sex == "f") & (rng.random(rows) < 0.2), "yes", "no"),
            "birth": birth,
            "year": birth.dt.year,
            "cost": rng.lognormal(7 + code / 20, 0.5).round(2),
            "days": rng.poisson(4, rows),
        }
    )


def test_describe_tells_them_and_the_dictionary_says_them() -> None:
    described = mv.describe(hospital_visits())
    assert described.relations.sentences == [
        "chapter follows from icd10",
        "pregnant follows from icd10",
        "age follows from birth: completed years until admitted",
        "visit_no follows from patient_id: the place of the row",
        "visits follows from patient_id: the number of rows",
    ]
    assert described.relations.pairs == ["sex = m and chapter = pregnancy", "sex = m and pregnant = yes"]
    written = described.to_dictionary()
    assert written["columns"]["chapter"] == {"kind": "category", "follows_from": "icd10"}
    assert written["columns"]["age"]["until"] == "admitted"
    assert {"columns": ["sex", "pregnant"], "labels": ["m", "yes"]} in written["impossible"]


def test_exceptions_are_counted_and_rebuilt() -> None:
    data = table()
    data.loc[[3, 40], "chapter"] = ["C", "A"] if data["chapter"][3] != "C" else ["A", "C"]
    wrong = int((data["chapter"] != data["icd"].str[0]).sum())
    assert wrong > 0
    entry = next(e for e in mv.describe(data).relations.follows if e["column"] == "chapter")
    assert entry == {"column": "chapter", "follows_from": "icd", "exceptions": wrong}
    release = mv.protect(data, seed=1)
    assert (release.data["chapter"] == release.data["icd"].str[0]).all()
    assert f"chapter follows from icd (but for {wrong} rows)" in release.rules


def test_a_rare_label_that_has_much_to_do_with_another_does_not_follow_from_it() -> None:
    data = table()
    data["died"] = np.where((data["icd"] == "A00") & (np.arange(len(data)) % 10 == 0), "yes", "no")
    assert not any(entry["column"] == "died" for entry in mv.describe(data).relations.follows)
    assert (mv.protect(data, seed=1).data["died"] == "yes").sum() == (data["died"] == "yes").sum()


def test_what_is_written_is_obeyed_and_what_is_taken_out_is_not(tmp_path: Path) -> None:
    data = table()
    source, rules, target = (tmp_path / name for name in ("in.csv", "rules.toml", "out.csv"))
    data.to_csv(source, index=False)
    with pytest.raises(SystemExit) as ended:
        main(["describe", str(source), "-o", str(rules)])
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        main(["protect", str(source), "-o", str(target), "--rules", str(rules), "--seed", "1", "--quiet"])
    assert ended.value.code == 0
    out = pd.read_csv(target)
    assert (out["chapter"] == out["icd"].str[0]).all()
    assert (out["year"] == pd.to_datetime(out["birth"]).dt.year).all()
    assert not ((out["sex"] == "m") & (out["pregnant"] == "yes")).any()

    less: dict[str, Any] = mv.describe(data).to_dictionary()
    del less["columns"]["chapter"]["follows_from"], less["columns"]["year"]["follows_from"]
    del less["columns"]["year"]["part"], less["impossible"]
    loose = mv.protect(data, rules=less, seed=1)
    assert (loose.data["chapter"] != loose.data["icd"].str[0]).any()
    assert (loose.data["year"] != loose.data["birth"].dt.year).any()
    assert loose.rules == []


def test_a_pair_that_somebody_adds_is_never_made() -> None:
    data = table()
    data.loc[(data["sex"] == "m") & (data["icd"] == "B05"), "icd"] = "B04"  # by chance too few to be found
    rules = {"impossible": [{"columns": ["icd", "sex"], "labels": ["B05", "m"]}]}
    for seed in range(2):
        out = mv.protect(data, rules=rules, seed=seed).data
        assert not ((out["icd"] == "B05") & (out["sex"] == "m")).any()


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ({"columns": {"sex": {"follows_from": "icd"}}}, r"'sex' does not follow from 'icd' in \d+ rows"),
        ({"columns": {"sex": {"follows_from": "cost"}}}, "'sex' follows from 'cost', which is not protected as labels"),
        ({"columns": {"sex": {"follows_from": "seks"}}}, "there is no column 'seks'; there are: icd"),
        ({"columns": {"days": {"follows_from": "birth", "part": "the year"}}}, "'days' does not follow from 'birth'"),
        ({"columns": {"year": {"follows_from": "birth", "part": "the month"}}}, "is not what the dictionary says"),
        ({"impossible": [{"columns": ["sex", "icd"], "labels": ["m", "A00"]}]}, r"\d+ rows have labels of 'sex' and"),
        ({"impossible": [{"columns": ["sex", "icdd"], "labels": ["m", "A00"]}]}, "there is no column 'icdd'"),
    ],
)
def test_what_does_not_hold_is_refused_and_no_label_is_told(rules: dict[str, Any], problem: str) -> None:
    with pytest.raises((DataError, ParameterError), match=problem) as caught:
        mv.protect(table(), rules=rules, seed=1)
    assert "A00" not in str(caught.value)


# --- Labels that follow from labels in clear


@pytest.mark.parametrize("role", ["keep", "strata", "public"])
def test_labels_that_follow_from_labels_in_clear_are_refused(role: str) -> None:
    with pytest.raises(DataError, match="confidential: 'chapter' follows from 'icd', released as it is"):
        mv.protect(table(), **{role: "icd"}, seed=1)  # type: ignore[arg-type]


def test_what_tells_no_label_may_be_in_clear() -> None:
    assert "chapter" not in mv.protect(table(), keep="icd", drop="chapter", seed=1).data
    release = mv.protect(table(), keep="chapter", drop="year", seed=1)
    assert "icd" in release.labels, "a chapter does not tell the code"


def test_labels_that_mostly_follow_are_told() -> None:
    data = table()
    data.loc[5, "chapter"] = "A" if data["chapter"][5] != "A" else "B"
    release = mv.protect(data, keep="icd", seed=1)
    assert any("'chapter' follows in 99.9% of the rows from 'icd'" in warning for warning in release.warnings)


# --- Labels and numbers of few values


def test_labels_that_follow_from_a_flag_or_never_meet_it_do_so_in_a_release() -> None:
    rng = np.random.default_rng(2)
    rows = 1_500
    died, pregnant = (rng.random(rows) < 0.3).astype(int), (rng.random(rows) < 0.2).astype(int)
    cause = np.where(died == 1, rng.choice(["heart", "lung", "other"], rows), "alive")
    sex = np.where(pregnant == 1, "f", rng.choice(["f", "m"], rows))
    word = np.where(died == 1, "dead", "alive")
    amounts = {f"x{j}": rng.lognormal(3, 1, rows).round(2) for j in range(3)}
    data = pd.DataFrame({"died": died, "pregnant": pregnant, "cause": cause, "sex": sex, "word": word, **amounts})
    data["cause"] = data["cause"].where(data["died"] == 1, None)
    described = mv.describe(data).relations
    assert described.sentences == ["word follows from died"]
    assert "pregnant = 1 and sex = m" in described.pairs
    for rules in ("infer", mv.describe(data).to_dictionary()):
        out = mv.protect(data, rules=rules, seed=1).data
        assert (out["cause"].notna() == (out["died"] == 1)).all()
        assert not ((out["sex"] == "m") & (out["pregnant"] == 1)).any()
        assert ((out["word"] == "dead") == (out["died"] == 1)).all()
        assert (out["died"] != data["died"]).mean() > 0.2
        assert out["cause"].value_counts().to_dict() == data["cause"].value_counts().to_dict()
