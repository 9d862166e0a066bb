"""Reports of odd tables, of labels and of stored releases; and what their pictures show."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reported import SEED, Case, Page, people, strictly

import microveil as mv
from microveil.assess import assess_release
from microveil.errors import ParameterError
from microveil.report.analyses import _by_rows


def test_a_stored_release_leaves_the_original_behind(case: Case) -> None:
    stored = pickle.dumps(case.release.writer)
    assert len(stored) < 5_000
    assert pickle.loads(stored).original is None
    assert case.release.writer.original.source is case.data
    assert str(case.data["wages"].max()) not in repr(case.release.writer)


def test_a_stored_release_has_neither_seed_nor_order_nor_original_rows(tmp_path: Path) -> None:
    data = pl.DataFrame(np.random.default_rng(1).lognormal(size=(60, 3)), schema=["a", "b", "c"])
    data.write_parquet(tmp_path / "in.parquet")
    shuffled = mv.protect(data, "pca", shuffle_rows=True, seed=8642097)
    streamed = mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "pca", seed=8642097)
    assert streamed.sample is not None
    for release in (shuffled, streamed):
        stored = pickle.dumps(release)
        assert pickle.dumps(8642097)[2:-1] not in stored
        assert data["a"].to_numpy()[0].tobytes() not in stored
        back = pickle.loads(stored)
        assert (back.seed, back.order, back.sample) == (None, None, None)
        with pytest.raises(ParameterError, match="without its seed"):
            back.recipe(include_seed=True)
        assert back.recipe() == release.recipe()


def test_names_of_columns_cannot_break_the_page(tmp_path: Path) -> None:
    hostile = ['<script>alert("x")</script>', "a&b</svg>", "x' onload='y", 'comma, "quoted"', "https://nowhere.example"]
    data = pl.DataFrame(np.random.default_rng(1).normal(size=(60, 5)), schema=hostile)
    release = mv.protect(data, "pca", seed=1)
    for audience in ("internal", "public"):
        release.report(tmp_path / "r.html", audience)
        text = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<svg" in text
        assert text.count("<svg") == text.count("</svg>")
        page = Page()
        page.feed(text)
        assert "script" not in page.tags
        assert not any(name.startswith("on") for name in page.attributes)
        assert strictly(tmp_path / "r.json")["release"]["roles"]["protected"] == hostile


@pytest.mark.parametrize("rows", [4, 29])
def test_small_tables_have_a_report_without_pictures_of_them(rows: int, tmp_path: Path) -> None:
    data = np.random.default_rng(2).normal(size=(rows, 2))
    release = mv.protect(data, "pca", seed=1)
    for audience in ("internal", "public"):
        release.report(tmp_path / "r.html", audience)
        told = strictly(tmp_path / "r.json")["plots"]
        for name in ("losses", "correlations"):
            assert told[name]["rows"] == []
            assert "too few values" in told[name]["absent"]


def test_odd_columns_are_reported(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = pl.DataFrame(
        {
            "a": rng.normal(size=90),
            "b": np.full(90, 3.0),
            "c": [None, *rng.normal(size=89)],
            "d": [0.0] * 85 + [1.0] * 5,
        }
    )
    release = mv.protect(data, "pca", seed=1)
    found = assess_release(release, measures=["ks", "dbrl", "kl_gaussian"])
    for audience in ("internal", "public"):
        release.report(tmp_path / "r.html", audience, assessment=found)
        told = strictly(tmp_path / "r.json")
        assert {row["column"] for row in told["plots"]["losses"]["rows"]} == {"a", "c", "d"}
        page = (tmp_path / "r.html").read_text()
        assert page.count("Not drawn: ") == page.count("Not drawn: methods were not compared") <= 1


def test_many_columns_show_those_that_lost_most(tmp_path: Path) -> None:
    data = np.random.default_rng(4).normal(size=(80, 40))
    release = mv.protect(data, "pca", seed=1, components=3)
    release.report(tmp_path / "r.html", "public")
    told = strictly(tmp_path / "r.json")["plots"]
    assert len({row["column"] for row in told["tenths"]["rows"]}) == 12
    assert "12 of 40 columns" in told["tenths"]["description"]
    assert len({row["one"] for row in told["correlations"]["rows"]}) == 30


def test_a_picture_with_bars_fits_on_a_page(tmp_path: Path) -> None:
    data = np.random.default_rng(4).normal(size=(90, 70))
    release = mv.protect(data, "pca", seed=1)
    release.report(tmp_path / "r.html", "public")
    rows = strictly(tmp_path / "r.json")["plots"]["losses"]["rows"]
    assert len(rows) == 60
    assert [int(row["column"]) for row in rows] == sorted(int(row["column"]) for row in rows)


def test_losses_are_what_they_say(case: Case) -> None:
    from scipy import stats

    rows = {row["column"]: row for row in case.json["public"]["plots"]["losses"]["rows"]}
    for name in case.data.columns:
        old, new = case.data[name].to_numpy(), case.release.data[name].to_numpy()
        assert rows[name]["distribution"] == pytest.approx(stats.ks_2samp(old, new).statistic, rel=1e-3)
        assert rows[name]["mean"] < 1e-9, "kept exactly"
    changes = case.json["public"]["plots"]["correlations"]["rows"]
    assert max(abs(row["change"]) for row in changes) < 1e-9


def test_correlation_changes_over_the_rows_that_have_both() -> None:
    from microveil.core.table import Matrix
    from microveil.report.portrait import correlation_changes

    rng = np.random.default_rng(5)
    before, after = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    for table in (before, after):
        table[:20, 0] = np.nan
    found = correlation_changes(Matrix.from_array(before), Matrix.from_array(after), ["a", "b", "c"])
    change = next(row["change"] for row in found if (row["one"], row["other"]) == ("a", "b"))
    expected = np.corrcoef(after[20:, :2].T)[0, 1] - np.corrcoef(before[20:, :2].T)[0, 1]
    assert change == pytest.approx(expected, abs=5e-5)


def test_the_twin_may_not_be_the_report(case: Case, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"html"):
        case.release.report(tmp_path / "r.json")
    with pytest.raises(ParameterError, match="audience"):
        case.release.report(tmp_path / "r.html", "everybody")
    assert list(tmp_path.iterdir()) == []


def test_labels_and_dates_are_in_the_reports(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    days = pl.Series("born", rng.integers(0, 20_000, 400)).cast(pl.Date)
    labels = [
        pl.Series(name, rng.choice(words, 400)) for name, words in (("area", ["a", "b", "c"]), ("sex", ["f", "m"]))
    ]
    data = people().with_columns(days, *labels, firm_id=pl.Series([f"F{number:04d}" for number in range(400)]))
    release = mv.protect(data, keep="sex", seed=SEED)
    told = {}
    for audience in ("internal", "public"):
        release.report(tmp_path / f"{audience}.html", audience, assessment=assess_release(release, measures=["ks"]))
        told[audience] = strictly(tmp_path / f"{audience}.json")
        assert told[audience]["release"]["columns"] == 6
        assert told[audience]["release"]["roles"]["protected"] == [*people().columns, "born", "area"]
        assert told[audience]["release"]["roles"]["released as they are"] == ["sex"]
        lost = {row["column"] for row in told[audience]["plots"]["losses"]["rows"]}
        assert lost == {*people().columns, "born"}, "dates count as numbers"
        meanings = {line["statistic"]: line["meaning"] for line in told[audience]["kept"]}
        assert "groups that labels make" in meanings["group means"]
    assert told["internal"]["dose"].keys() == {*people().columns, "born", "area"}
    assert any("column 'firm_id' (identifier" in warning for warning in told["internal"]["warnings"])


def test_labels_have_pictures_with_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    group = rng.integers(0, 3, 400)
    names = np.array(["<b>low</b>", "halfway_up", "high"])
    data = pl.DataFrame(
        {"pay": rng.lognormal(size=400) * (1 + group), "rank": names[group], "sex": rng.choice(["f", "m"], 400)}
    )
    release = mv.protect(data, seed=1)
    release.report(tmp_path / "r.html")
    release.report(tmp_path / "p.html", audience="public")
    page, told = (tmp_path / "r.html").read_text(), strictly(tmp_path / "r.json")
    for name in ("two_way", "group_means"):
        assert f'<title id="{name}-title">' in page
        assert f'<desc id="{name}-desc">' in page
        assert told["plots"][name]["rows"]
    assert "<b>low</b>" not in page, "labels are text, not markup"
    assert {row["file"] for row in told["plots"]["group_means"]["rows"]} == {"original", "released"}
    public = (tmp_path / "p.html").read_text() + (tmp_path / "p.json").read_text()
    assert "two_way" not in public
    assert "halfway_up" not in public


@pytest.mark.parametrize(
    ("measured", "seen", "said"),
    [([0.015], [0.077, 0.01], True), ([0.015], [0.0151], False), ([], [0.3], False), ([0.02], [], False)],
)
def test_a_figure_of_correlations_that_is_not_the_measure_says_why(
    measured: list[float], seen: list[float], said: bool
) -> None:
    words = _by_rows(measured, seen)
    assert words == (" over the rows that have both cells; 0.015 with means and spreads of all cells" if said else "")
