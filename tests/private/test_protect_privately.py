"""`protect` with epsilon: what is promised, what is refused, and that nothing but noisy answers reaches a release."""

import contextlib
import html
import itertools
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.app.worker import protect as by_app
from microveil.cli.main import main
from microveil.cli.show.releases import release as show_release
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.options import PRIVATE, Protect
from microveil.private.mechanism import Account
from microveil.protection.privately import REFUSED

BOUNDS = {"age": (0, 110, 1), "income": (0, 100_000.0), "born": ("1920-01-01", "2010-12-31")}
LEVELS = {"sex": ["f", "m"], "region": [1, 2, 3]}
DECLARED = {"epsilon": 1.0, "delta": 1e-6, "bounds": BOUNDS, "levels": LEVELS}


def people(rows=3_000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 15, rows).clip(0, 100).round()
    sex = rng.integers(0, 2, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": (age * 800 + sex * 8_000 + rng.normal(0, 5_000, rows)).clip(0),
            "sex": np.array(["f", "m"])[sex],
            "region": rng.integers(1, 4, rows),
            "born": pd.Timestamp("2010-01-01") - pd.to_timedelta(age * 365, unit="D"),
        }
    )


@pytest.fixture
def without_data(monkeypatch):
    """Mechanisms that answer without looking at the data, and streams of a fixed seed: what is left is public."""

    def fix():
        generator = np.random.default_rng(5)
        real = Account.noisy

        def noisy(self, query, exact, sensitivity, rho, per_unit=1.0):
            real(self, query, np.zeros_like(exact), sensitivity, rho, per_unit)
            return np.round(generator.normal(400 * per_unit**0.5, 10, exact.size))

        monkeypatch.setattr(Account, "noisy", noisy)
        monkeypatch.setattr(Streams, "from_seed", classmethod(lambda cls, *_: cls(7)))
        return real

    return fix


def odd(table):
    """Another table of the same columns: other rows, types and cells, some of them absurd."""
    other = people(17, seed=9).astype(object)
    for row, name in enumerate(other):
        other.loc[row, name] = [None, float("inf"), "?", "unknown", -1e300][row]
    other.loc[7, "sex"] = 12
    return other


def test_nothing_but_noisy_answers_reaches_a_release(without_data, tmp_path, monkeypatch):
    seen = []
    empty = people(40).assign(income=np.nan, sex=None)
    tables = [people(500), odd(None), people(1), people(3).iloc[:0], empty, people(9).assign(region="?", age=2)]
    for number, table in enumerate(tables):
        real = without_data()
        release = mv.protect(table, **DECLARED, may_be_missing=["born"])
        release.report(tmp_path / f"{number}.html", audience="public")
        page = json.loads((tmp_path / f"{number}.json").read_text())
        page["report"].pop("made")
        ledger = [(entry.query, entry.numbers, entry.rho) for entry in release.ledger.entries]
        seen.append((release.data, repr(release), release.recipe(), ledger, page, pickle.dumps(release)))
        monkeypatch.setattr(Account, "noisy", real)
    for one, other in itertools.pairwise(seen):
        pd.testing.assert_frame_equal(one[0], other[0])
        assert one[1:] == other[1:]


ODD_FILE = """age,income,sex,region,born
"1,234",EUR 17,f,1.0,31.12.1999
x,"1 000",true,"",
12.5,1e400,007,99999999999999999999,2001-01-01
total,5,,,
"""


def test_nothing_but_noisy_answers_reaches_the_files(without_data, tmp_path, monkeypatch, capsys):
    people(60).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "b.csv").write_text(ODD_FILE)
    seen, typed = [], ["--epsilon", "1"]
    for name, sign in (("bounds", ":"), ("levels", ",")):
        for column, said in DECLARED[name].items():
            typed += [f"--{name}", f"{column}={sign.join(map(str, said))}"]
    for name in "ab":
        real = without_data()
        folder = tmp_path / f"out {name}"
        folder.mkdir()
        (tmp_path / "in.csv").write_bytes((tmp_path / f"{name}.csv").read_bytes())
        files = {"public_report": folder / "p.html", "recipe": folder / "r.toml"}
        release = mv.protect_file(tmp_path / "in.csv", folder / "o.csv", **files, **DECLARED)
        texts = [file.read_text().replace(folder.name, "") for file in sorted(folder.iterdir())]
        seen.append((release.warnings, repr(release), [re.sub(r"20\d\d-\d\d-\d\dT?[\d:+. ]*", "", t) for t in texts]))
        monkeypatch.setattr(Account, "noisy", real)
        again = mv.run(folder / "r.toml")
        assert again.warnings == release.warnings
        without_data()
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main(["protect", "../in.csv", "-o", "typed.csv", *typed, "--json"])
        assert not ended.value.code
        seen[-1] += ((folder / "typed.csv").read_text(), capsys.readouterr().out, sorted(map(str, Path().iterdir())))
        monkeypatch.setattr(Account, "noisy", real)
    assert len(seen[0][2]) == 4
    assert seen[0] == seen[1]


def test_release_has_the_declared_types_and_no_others():
    for table in (people(200), odd(None)):
        data = mv.protect(table, **DECLARED, rows=50).data
        assert [str(kind)[:8] for kind in data.dtypes[["age", "income", "region", "born"]]] == [
            "int64",
            "float64",
            "int64",
            "datetime",
        ]
        assert len(data) == 50
        assert set(data["sex"]) <= {"f", "m"}
        assert data["income"].between(0, 100_000).all()
        assert not data.isna().any().any()
    assert isinstance(mv.protect(pl.from_pandas(people(200)), **DECLARED, rows=9).data, pl.DataFrame)
    array = np.random.default_rng(0).uniform(0, 1, (500, 2))
    found = mv.protect(array, epsilon=2.0, bounds={0: (0, 1), 1: (0, 1)}, rows=30).data
    assert found.shape == (30, 2)


def test_statistics_come_back_within_the_expected_error():
    table = people(8_000)
    release = mv.protect(table, **DECLARED)
    told = mv.expected_error(8_000, 3, [2, 3])
    before, after = (data[["age", "income"]].corr("spearman").iloc[0, 1] for data in (table, release.data))
    assert abs(after - before) < 5 * told.rank_correlation + 0.01
    means = [data.groupby("sex")["income"].mean().diff().iloc[-1] for data in (table, release.data)]
    assert means[1] == pytest.approx(means[0], rel=0.25)
    assert len(release.data) == release.rows
    assert release.ledger.spent_epsilon <= 1.0
    assert release.ledger.remaining_epsilon < 0.05
    assert told.rank_correlation > mv.expected_error(80_000, 3, [2, 3]).rank_correlation


def test_heaps_and_ties_come_back_where_there_is_no_noise():
    rng = np.random.default_rng(4)
    children = rng.poisson(0.4, (3_000, 2)).clip(0, 5) * (rng.random((3_000, 1)) < 0.5)
    other = np.where(rng.random(3_000) < 0.3, 0.0, rng.gamma(2, 5 + 5 * (children[:, 0] > 0)).round(3))
    table = pd.DataFrame({"a": children[:, 0], "b": children[:, 1], "c": other, "d": children[:, 0] > 0})
    declared = {"bounds": {"a": (0, 9, 1), "b": (0, 9, 1), "c": (0, 200, 0.001)}, "levels": {"d": [True, False]}}
    exact, noisy = (mv.protect(table, epsilon=e, **declared).data for e in (float("inf"), 3.0))
    before, after = (data[["a", "b", "c"]].corr("spearman").to_numpy() for data in (table, exact))
    assert np.abs(before - after).max() < 0.01
    assert (exact["c"] == 0).mean() == pytest.approx((other == 0).mean(), abs=0.002)
    assert (noisy["c"] == 0).mean() == pytest.approx((other == 0).mean(), abs=0.05)


def test_missing_cells_are_released_where_they_are_declared():
    table = people(5_000)
    table.loc[::4, "income"] = np.nan
    table.loc[::5, "sex"] = None
    data = mv.protect(table, **DECLARED, may_be_missing=["income", "sex"], rows=800).data
    assert data["income"].isna().mean() == pytest.approx(0.25, abs=0.04)
    assert data["sex"].isna().mean() == pytest.approx(0.2, abs=0.04)
    assert data[["age", "income"]].corr("spearman").iloc[0, 1] == pytest.approx(0.87, abs=0.1)
    plain = mv.protect(table, **DECLARED, rows=9)
    assert not plain.data.isna().any().any()
    assert any("'income': 1250 cells" in line for line in plain.for_owner)


def test_a_column_that_is_called_as_the_missing_cells_of_another_is_refused():
    table = people(30).assign(**{"age is missing": "f"})
    declared = {**DECLARED, "levels": {**LEVELS, "age is missing": ["f", "m", "x"]}}
    with pytest.raises(ParameterError, match="rename it"):
        mv.protect(table, **declared, may_be_missing="age")
    assert len(mv.protect(table, **declared, rows=9).data) == 9


def test_what_the_owner_is_told_is_not_stored_or_published(tmp_path):
    table = people(500)
    table.loc[3, "income"] = 1e9
    release = mv.protect(table, **DECLARED, rows=50)
    assert any("'income': 1 cells" in line for line in release.for_owner)
    assert pickle.loads(pickle.dumps(release)).for_owner == []
    release.report(tmp_path / "p.html", audience="public")
    page = (tmp_path / "p.html").read_text() + (tmp_path / "p.json").read_text()
    assert "did not fit" not in page
    assert "Privacy loss ledger" in page
    release.report(tmp_path / "i.html")
    assert "for the owner only" in (tmp_path / "i.html").read_text()


def test_an_assessment_is_not_for_publication():
    table = people(300)
    private, plain = mv.protect(table, **DECLARED, rows=300), mv.protect(table, seed=1)
    assert "born" in mv.assess(table, private).columns  # a date is compared as one
    for judged in (
        mv.assess(table, some) for some in (private, [private, private], [plain, private], [private, plain])
    ):
        assert judged.notes[0].startswith("not for publication")
        assert "not for publication" in repr(judged) + judged.to_json()
    assert "not for publication" not in mv.assess(table, plain).to_json()


@pytest.mark.parametrize("form", [["--json"], []])
def test_standard_output_may_be_published(form, tmp_path, capsys):
    table = people(200).drop(columns=["born", "region"])
    table.loc[3, "income"] = 1e9
    table.to_csv(tmp_path / "in.csv", index=False)
    typed = ["--bounds", "age=0:110:1", "--bounds", "income=0:100000", "--levels", "sex=f,m", "--rows", "50"]
    words = ["protect", str(tmp_path / "in.csv"), "-o", str(tmp_path / "o.csv"), "--epsilon", "1", *typed, *form]
    with contextlib.suppress(SystemExit):
        main(words)
    out, err = capsys.readouterr()
    assert "ledger" in out or "epsilon" in out
    assert "fit" not in out
    assert "owner" not in out
    assert "for the owner only: column 'income': 1 cells did not fit" in err


def test_a_unit_counts_once_whatever_rows_it_has():
    table = people(2_000)
    table["person"] = np.repeat(np.arange(500), 4)
    release = mv.protect(table, **DECLARED, unit="person", rows_per_unit=2)
    assert release.rows == pytest.approx(1_000, abs=500)
    assert "person" not in release.data
    assert "unit" in release.ledger.unit
    assert any(line.startswith("1000 rows were left out") for line in release.for_owner)
    count = next(entry for entry in release.ledger.entries if entry.query == "number of records")
    assert count.sensitivity == 2
    by_place = mv.protect(table.iloc[:, ::-1], **DECLARED, unit=0, rows_per_unit=2, rows=9)
    assert "person" not in by_place.data


def test_a_recipe_asks_for_the_same_again():
    release = mv.protect(people(300), **DECLARED, rows=20)
    again = mv.run(release.recipe(), people(300))
    assert again.ledger.epsilon == 1.0
    with pytest.raises(ParameterError, match="no seed"):
        release.recipe(include_seed=True)


def test_a_dictionary_may_declare_the_columns():
    rules = {"columns": {"a": {"minimum": 0, "maximum": 1}, "b": {"levels": ["u", "v"], "missing": True}}}
    table = pd.DataFrame({"a": [0.5] * 40, "b": ["u"] * 40})
    assert set(mv.protect(table, epsilon=5.0, delta=1e-3, rules=rules).data) == {"a", "b"}
    rules["sums"] = [{"total": "a", "parts": ["b"]}]
    with pytest.raises(ParameterError, match="rules between columns"):
        mv.protect(table, epsilon=5.0, delta=1e-3, rules=rules)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"epsilon": 0.0}, "epsilon: must be"),
        ({"epsilon": -1.0}, "epsilon: must be"),
        ({"epsilon": float("nan")}, "epsilon: must be"),
        ({"epsilon": 1e-6}, "number of rows would be noise"),
        ({"epsilon": 1e-13, "delta": 1e-300}, "epsilon: too small"),
        ({"delta": 0.0}, "delta: must be between"),
        ({"delta": 0.01}, "delta: must be below"),
        ({"delta": 0.01, "rows": 200}, "delta: must be below"),
        ({"bounds": None}, "nothing is declared of column 'age'"),
        ({"bounds": {**BOUNDS, "agee": (0, 1)}}, "did you mean 'age'"),
        ({"bounds": {**BOUNDS, "age": (10, 0)}}, "not \\(low, high\\)"),
        ({"bounds": {**BOUNDS, "age": (0, float("inf"))}}, "not \\(low, high\\)"),
        ({"bounds": {**BOUNDS, "born": ("1920-01-01", "2010-12-31", 0.5)}}, "no number of days"),
        ({"levels": {**LEVELS, "sex": "fm"}}, "no list"),
        ({"levels": {**LEVELS, "region": [1, "1"]}}, "twice"),
        ({"levels": {**LEVELS, "age": [1]}}, "both bounds and levels"),
        ({"seed": 3}, "seed: does not go"),
        ({"strata": "sex"}, "strata: does not go"),
        ({"protected_weight": "income"}, "protected_weight: does not go"),
        ({"public": ["sex"]}, "public: does not go"),
        ({"keep": ["sex"]}, "keep: does not go"),
        ({"weight": "income"}, "weight: does not go"),
        ({"method": "pca"}, "pca has no proof"),
        ({"window": 10}, "window: no parameter"),
        ({"engine": "stream"}, "engine: 'stream' does not go"),
        ({"unit": "region"}, "rows_per_unit go together"),
        ({"unit": "income", "rows_per_unit": 2, "delta": 0.005, "epsilon": 10.0}, "delta: must be below"),
        ({"confidential": ["age", "incme"]}, "did you mean 'income'"),
        ({"drop": "incme"}, "did you mean 'income'"),
        ({"bounds": {**BOUNDS, "income": (0, 1e100, 1e-290)}}, "not \\(low, high\\)"),
        ({"rows": 0}, "rows: must be 1"),
        ({"epsilon": None}, "delta: goes with|bounds: goes with"),
    ],
)
def test_wrong_use_is_refused(changed, problem):
    with pytest.raises(ParameterError, match=problem):
        mv.protect(people(300), **{**DECLARED, **changed})


@pytest.mark.parametrize("bounds", [(1e30, 1e30 + 1e20, 1e6), (-(2**70), 2**70, 2**50), (2**52, 2**53, 2**10)])
def test_large_whole_numbers_are_within_their_bounds(bounds):
    found = mv.protect(pd.DataFrame({"x": [5.0] * 30}), epsilon=1.0, bounds={"x": bounds}, rows=50).data["x"]
    assert found.between(*bounds[:2]).all()
    assert (found.dtype == np.int64) == (bounds[1] <= 2**53)


def test_dates_have_the_step_that_is_declared():
    table = pd.DataFrame({"day": pd.Timestamp("2000-06-01") + pd.to_timedelta(np.arange(90), unit="D")})
    found = mv.protect(table, epsilon=1.0, bounds={"day": ("2000-01-01", "2001-01-01", 7)}, rows=50).data["day"]
    assert not ((found - pd.Timestamp("2000-01-01")).dt.days % 7).any()


def test_a_release_of_noise_alone_is_one():
    for epsilon in (1e-100, 1e-300):
        for _ in range(5):
            with contextlib.suppress(ParameterError):  # the noisy number of records may be too large for delta
                assert len(mv.protect(people(40), **{**DECLARED, "epsilon": epsilon, "rows": 9}).data) == 9


WRONG = [
    ({"epsilon": 0.0}, "epsilon: must be"),
    ({"delta": 0.01, "rows": 200}, "delta: must be below"),
    ({"bounds": None}, "nothing is declared of column 'age'"),
    ({"strata": ["sex"]}, "strata: does not go"),
    ({"seed": 3}, "seed: does not go"),
    ({"policy": {"limits": []}}, "policy: does not go"),
]


@pytest.mark.parametrize(("changed", "problem"), WRONG)
def test_wrong_use_is_refused_by_every_door(changed, problem, tmp_path, capsys):
    """In recipes (with a table, and with a file), as the app does it, and as it is typed."""
    people(60).to_csv(tmp_path / "in.csv", index=False)
    asked = {**DECLARED, "delta": 1e-6, **changed}
    recipe = {"recipe": 2, "method": "veil", "confidential": [], **asked}
    recipe["input"] = {"path": str(tmp_path / "in.csv")}
    for data in (people(60), None):
        with pytest.raises(ParameterError, match=problem):
            mv.run(recipe, data)
    task = {"source": tmp_path / "in.csv", "output": tmp_path / "o.csv", "options": asked, "params": {}}
    files = {name: tmp_path / f"{name}.html" for name in ("report", "public_report")}
    with pytest.raises(ParameterError, match=problem):
        by_app({**task, **files, "recipe": tmp_path / "r.toml"}, lambda *_: None)
    words = ["protect", str(tmp_path / "in.csv"), "-o", str(tmp_path / "o.csv")]
    (tmp_path / "policy.toml").write_text("[limits]\n")
    for name, value in asked.items():
        if name in ("bounds", "levels"):
            signs = {"bounds": ":", "levels": ","}
            for column, said in (value or {}).items():
                words += [f"--{name}", f"{column}={signs[name].join(map(str, said))}"]
        else:
            typed = {"strata": "sex", "policy": str(tmp_path / "policy.toml")}.get(name, str(value))
            words += [f"--{name}", typed]
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code
    assert re.search(problem, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("engine", ["stream", "spark"])
def test_no_other_engine_takes_epsilon_and_ignores_it(engine, tmp_path):
    """Streams once did, and gave a release without noise."""
    table = people(60).drop(columns=["sex", "born", "region"])
    table.to_parquet(tmp_path / "in.parquet")
    asked = {"epsilon": 1.0, "bounds": {"age": (0, 110), "income": (0, 1e5)}, "engine": engine}
    for some in (asked, {"delta": 1e-3, "engine": engine}):
        with pytest.raises(ParameterError, match=f"'{engine}' takes no .* or epsilon"):
            mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", **some)
    assert not (tmp_path / "out.parquet").exists()
    with pytest.raises(ParameterError, match="epsilon: does not go with Spark"):
        mv.protect_spark(tmp_path / "in.parquet", epsilon=1.0)


def test_no_option_is_ignored():
    used = {"confidential", "unit", "drop", "rules", "method", "engine", "epsilon", *PRIVATE}
    assert set(Protect.model_fields) == used | set(REFUSED)


VOID = [
    ({"epsilon": float("inf")}, "no noise was added"),
    ({"bounds": None, "bounds_from_data_without_guarantee": True}, "of 3 columns were taken from the data (age,"),
]


@pytest.mark.parametrize(("changed", "why"), VOID)
def test_what_voids_the_guarantee_is_in_every_report(changed, why, tmp_path, capsys):
    table = people(300)
    table.to_parquet(tmp_path / "in.parquet")
    pages = {"public_report": tmp_path / "p.html", "report": tmp_path / "i.html"}
    asked = {**DECLARED, "rows": 40, **changed}
    release = mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.csv", **pages, **asked)
    assert not release.ledger.to_dict()["guarantee"]
    show_release(release, None, None)
    told = [repr(release), *release.warnings[:1], release.ledger.promise, " ".join(capsys.readouterr().out.split())]
    told += [html.unescape(path.with_suffix(end).read_text()) for path in pages.values() for end in (".html", ".json")]
    assert all("NO GUARANTEE" in text and why in text for text in told)
    assert not any("nearly as likely" in text for text in told)
    assert not any(word in repr(mv.protect(table, **DECLARED, rows=9)) for word in ("NO", "not"))
    again = mv.run(release.recipe(), table)
    assert again.ledger.void == release.ledger.void


def test_values_are_in_no_message():
    with pytest.raises(ParameterError) as caught:
        mv.protect(people(300), epsilon=1.0, bounds={"age": (0, 1)})
    assert "bounds=" in str(caught.value)
    assert not any(str(value) in str(caught.value) for value in people(300)["income"])


def test_files_are_written_without_figures_of_the_original(tmp_path):
    people(300).drop(columns="born").to_csv(tmp_path / "in.csv", sep=";", index=False)
    with pytest.raises(ParameterError, match="no column 'age'"):
        mv.protect_file(tmp_path / "in.csv", tmp_path / "o.csv", **DECLARED)
    declared = {**DECLARED, "bounds": {k: v for k, v in BOUNDS.items() if k != "born"}}
    out, page = tmp_path / "out.csv", tmp_path / "p.html"
    release = mv.protect_file(tmp_path / "in.csv", out, public_report=page, rows=50, delimiter=";", **declared)
    assert release.sample[0] is None
    assert len(release.sample[1]) == 50
    release.report(tmp_path / "again.html", audience="public")
    assert out.read_text().splitlines()[0] == "age,income,sex,region"  # not as the original was written
    assert len(release.warnings) == 2
    for refused in ({"policy": {"limits": {}}}, {"include_seed": True}):
        with pytest.raises(ParameterError, match="does not go with epsilon"):
            mv.protect_file(tmp_path / "in.csv", tmp_path / "o.csv", **declared, **refused)
    assert not (tmp_path / "o.csv").exists()
