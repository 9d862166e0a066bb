"""Reports: what the public one must never hold, what the internal one must, and that both are read anywhere."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.assess import assess_release
from microveil.assessment.assessment import Assessment
from microveil.cli.main import main
from microveil.errors import ParameterError
from microveil.io.frames.fingerprint import fingerprint
from microveil.release.release import Release
from microveil.report import plots

SEED = 7_340_921_855
PLOTS = {
    "internal": {
        "ru_map", "scree", "altered", "weights", "losses", "histograms", "quantiles", "correlations",
    },
    "public": {"losses", "tenths", "correlations"},
}  # fmt: skip


def people(rows: int = 400) -> pl.DataFrame:
    """Skewed columns with long decimals, a total, whole numbers and a heap of zeros; extremes that stand out."""
    rng = np.random.default_rng(11)
    common = rng.normal(size=rows)
    wages = np.round(np.exp(9 + 0.7 * common + 0.3 * rng.normal(size=rows)), 2)
    other = np.round(np.where(rng.random(rows) < 0.3, 0, np.exp(6 + rng.normal(size=rows))), 2)
    age = np.round(40 + 10 * common + 8 * rng.normal(size=rows)) + 1000
    return pl.DataFrame({"wages": wages, "other": other, "total": np.round(wages + other, 2), "age": age})


@dataclasses.dataclass(frozen=True)
class Case:
    """A release with everything a report can be given, and both reports."""

    data: pl.DataFrame
    release: Release
    assessment: Assessment
    study: mv.Study
    html: dict[str, str]
    json: dict[str, dict[str, Any]]
    folder: Path


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder, data = tmp_path_factory.mktemp("reports"), people()
    release = mv.protect(data, "pca", seed=SEED, components=2)
    policy = {
        "policy": {"name": "house limits", "version": 1},
        "limits": {"dbrl": {"at_most": 0.9}, "pil": {"at_most": 0.0}},
    }
    ids = ["default", "outlier_risk", "il1s", "norm_max_row"]
    found = assess_release(release, measures=ids, policy=policy)
    methods = ["noise", "ipso", ("score_mix", {"correlation": 0.9})]
    study = mv.compare(data, methods, repeats=2, measures=["dbrl", "pil"], seed=1, workers=1)
    html, told = {}, {}
    for audience in ("internal", "public"):
        page = folder / f"{audience}.html"
        release.report(page, audience, assessment=found, study=study)
        html[audience] = page.read_text(encoding="utf-8")
        told[audience] = strictly(page.with_suffix(".json"))
    return Case(data, release, found, study, html, told, folder)


def strictly(path: Path) -> dict[str, Any]:
    """JSON as the standard has it: NaN and Infinity are no numbers."""

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    told = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert isinstance(told, dict)
    return told


def public_texts(case: Case) -> str:
    return case.html["public"] + (case.folder / "public.json").read_text(encoding="utf-8")


def written(value: float) -> set[str]:
    """A number as reports, files and people write it."""
    forms = {
        f"{value:{form}}" for form in ("", "g", ".6g", ".4g", ".1f", ".2f", ".0f", ",.0f", ",.2f", "e", ".3e", ".4e")
    }
    forms |= {repr(value), str(int(value)), f"{value:,.2f}".replace(",", " "), f"{value:.2f}".replace(".", ",")}
    return {form for form in forms if len(re.sub(r"\D", "", form)) >= 4}  # 0 and 12 are everywhere


def holds(text: str, form: str) -> bool:
    """Is the number there, and not merely some of the digits of another?"""
    return re.search(rf"(?<![\d.,]){re.escape(form)}(?![\d])", text) is not None


def test_the_public_report_has_no_seed(case: Case) -> None:
    assert str(SEED) not in public_texts(case)
    assert f"{SEED:,}" not in public_texts(case)
    assert f"{SEED:x}" not in public_texts(case)
    assert "seed" not in public_texts(case).lower()


def test_the_public_report_has_no_original_extreme(case: Case) -> None:
    text, searched = public_texts(case), 0
    for name in case.data.columns:
        column = case.data[name].to_numpy()
        for extreme in (float(column.min()), float(column.max())):
            for form in written(extreme):
                searched += 1
                assert not holds(text, form), f"{name}: an extreme is there as {form}"
    assert searched > 40
    internal = json.dumps(case.json["internal"])
    edge = case.json["internal"]["plots"]["histograms"]["rows"][0]["from"]
    assert holds(internal, f"{edge}"), "the search finds numbers that are there"


def test_the_public_report_has_no_record(case: Case) -> None:
    text = public_texts(case)
    for frame in (case.data, case.release.data):
        for wages, _, total, _ in frame.rows():
            for value in (wages, total):
                assert not holds(text, f"{value}"), "a value of a record"
                assert not holds(text, f"{value:.2f}"), "a value of a record"


def test_the_public_report_has_no_figure_of_risk(case: Case) -> None:
    text, told = public_texts(case), case.json["public"]
    paired = {name for name, entry in case.assessment.entries.items() if entry.paired}
    hidden = {name: m for name, m in case.assessment.items() if case.assessment.entries[name].kind != "utility"}
    for name, measure in hidden.items():
        assert re.search(rf"\b{name}\b", text) is None
        assert measure.meaning not in text
        for figure in (measure.value, measure.low, measure.high, measure.chance):
            for form in written(figure) if figure and figure < 1 else ():
                assert not holds(text, form), f"{name} as {form}"
    assert paired.isdisjoint(told["measures"]), "what compares records with their own releases tells how far to search"
    assert "pil" in told["measures"]
    for word in ("worst attack", "intruder", "house limits", "untouched", "achieved", *case.release.warnings):
        assert word not in text
    assert case.release.warnings, "there was something to leave out"


def test_the_public_report_says_what_analysts_need(case: Case) -> None:
    text, told = case.html["public"], case.json["public"]
    assert "<strong>pca</strong>" in text
    assert [rule in text for rule in case.release.rules] == [True]
    assert "come out as on the original file" in text
    assert {line["statistic"] for line in told["kept"]} == set(case.release.kept)
    assert all(line["exactly"] for line in told["kept"])
    for name, figure in told["measures"].items():
        assert figure["value"] == case.assessment[name].value
        assert figure["meaning"] in text.replace("&#39;", "'")
    assert len(told["advice"]) >= 5


def test_tenths_tell_no_value_and_add_up(case: Case) -> None:
    rows = case.json["public"]["plots"]["tenths"]["rows"]
    assert all(set(row) == {"column", "part", "file", "share"} for row in rows)
    for name in case.data.columns:
        for file, frame in (("original", case.data), ("released", case.release.data)):
            shares = [row["share"] for row in rows if (row["column"], row["file"]) == (name, file)]
            assert sum(shares) == pytest.approx(1, abs=1e-3 * len(shares)), "rounded to four digits"
            assert 1 < len(shares) <= 10
            if file == "original":
                assert min(shares) * frame.height >= 5 - 1e-9


def test_the_internal_report_has_everything(case: Case) -> None:
    text, told = case.html["internal"], case.json["internal"]
    assert str(SEED) in text
    assert told["replay"]["seed"] == SEED
    for which, data in (("original", case.data), ("released", case.release.data)):
        assert told["identity"][which]["fingerprint"] == fingerprint(data)
        assert fingerprint(data) in text
    assert set(told["measures"]) == set(case.assessment)
    for name, measure in case.assessment.items():
        figure = told["measures"][name]
        assert (figure["value"], figure["low"], figure["high"]) == (measure.value, measure.low, measure.high)
        assert (figure["identity"], figure["shuffle"]) == case.assessment.known(name)
        assert f">{name}</th>" in text
    assert told["measures"]["dbrl"]["identity"] == 1
    assert told["worst_attacks"][0]["measure"] == case.assessment.worst_attack.id
    assert told["outliers"] == ["outlier_risk", "extreme_disclosure"]
    assert told["policy"] == case.assessment.verdict.to_dict()
    assert "<strong>house limits</strong> is <strong>not met</strong>" in text
    assert set(told["dose"]) == set(case.release.dose)
    for warning in case.release.warnings:
        assert warning in told["warnings"]
    assert set(told["study"]["frontier"]) | set(told["study"]["rejected"]) == set(case.study.figures)
    assert told["study"]["frontier"] == case.study.frontier()
    for title in ("Identity", "Policy", "Residual risk", "Audit of the rules", "Alternatives", "To repeat it"):
        assert f"<h2>{title}</h2>" in text
    assert "does not say that the data are anonymous" in text


def test_rules_are_audited_before_and_after(case: Case) -> None:
    audit = {line["rule"]: line for line in case.json["internal"]["audit"]}
    (rule,) = case.release.rules
    assert (audit[rule]["before"], audit[rule]["after"]) == (0, 0)
    whole = next(line for rule, line in audit.items() if rule.startswith("age: "))
    cells = np.asarray(case.release.data["age"])
    assert whole["before"] == 0
    assert whole["after"] == np.count_nonzero((np.abs(cells - np.round(cells)) > 1e-5) | (cells < 0)) > 0


@pytest.mark.parametrize("audience", ["internal", "public"])
def test_a_report_needs_nothing_from_anywhere(case: Case, audience: str) -> None:
    text = case.html[audience]
    assert "http" not in text
    assert "<script" not in text.lower()
    assert not re.search(r"\b(src|@import|xlink:href)\b", text)
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', text))
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names)), "pictures do not take each other's names"
    assert {f"plot-{name}" for name in PLOTS[audience]} == {name for name in names if name.startswith("plot-")}


@pytest.mark.parametrize("audience", ["internal", "public"])
def test_pictures_and_tables_can_be_read_by_everybody(case: Case, audience: str) -> None:
    text = case.html[audience]
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == len(PLOTS[audience])
    for svg in pictures:
        start = svg[: svg.index(">")]
        title, words = re.search(r'aria-labelledby="(\S+) (\S+)"', start).groups()
        assert 'role="img"' in start
        assert re.search(rf'<title id="{title}">[^<]+</title><desc id="{words}">[^<]+</desc>', svg)
    for table in re.findall(r"<table>.*?</table>", text, flags=re.DOTALL):
        assert "<caption>" in table
        assert '<th scope="col"' in table
    assert "size: A4" in text
    assert '<html lang="en">' in text


@pytest.mark.quick("assessment-internal", "study-public", "pictures-internal")
@pytest.mark.parametrize("audience", ["internal", "public"])
@pytest.mark.parametrize("part", ["assessment", "study", "original", "pictures", "all"])
def test_a_report_is_written_whatever_is_absent(
    case: Case, audience: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"assessment": case.assessment, "study": case.study}
    release = case.release
    if part in ("original", "all"):
        release = pickle.loads(pickle.dumps(release))
    if part in ("pictures", "all"):
        monkeypatch.setattr(plots, "draw", broken)
    release.report(
        tmp_path / "r.html", audience, **{name: what for name, what in given.items() if part not in (name, "all")}
    )
    text, told = (tmp_path / "r.html").read_text(encoding="utf-8"), strictly(tmp_path / "r.json")
    drawn = text.count("<svg")
    assert text.count("Not drawn: ") == len(PLOTS[audience]) - drawn
    if part in ("pictures", "all"):
        assert drawn == 0
        assert "123.456" not in text, "the error of a library quotes values"
    if part == "original":
        assert drawn == {"internal": 4, "public": 0}[audience]
        assert told["plots"]["losses"]["absent"]
    if part == "assessment":
        assert told["measures"] == {}
        assert "not" in re.search(r'class="absent">([^<]*measured[^<]*)<', text)[1] or "nothing" in text


def broken(*_: object) -> str:
    raise RuntimeError("no picture of 123.456")


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


class Page(HTMLParser):
    """The elements and attributes of a page, as a browser takes them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


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
        assert "Not drawn" not in (tmp_path / "r.html").read_text().split("Before and after")[-1]


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


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people in.csv"
    people(120).write_csv(path)
    return path


def test_the_command_in_the_report_gives_the_same_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    out, page = tmp_path / "out.csv", tmp_path / "r.html"
    asked = ["--method", "pca", "--set", "components=0,1", "--set", "perturb=noise", "--public", "age"]
    assert run("protect", source, "-o", out, *asked, "--report", page, "--quiet") == 0
    told, first = strictly(tmp_path / "r.json"), out.read_bytes()
    assert told["identity"]["released"]["file"] == {"name": "out.csv", "sha256": hashlib.sha256(first).hexdigest()}
    expected = {"name": source.name, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    assert told["identity"]["original"]["file"] == expected
    assert {"dbrl", "pil", "outlier_risk", "score_2"} <= set(told["measures"])
    assert told["sanity"] == {"rows": 120, "of": 120}
    out.unlink()
    monkeypatch.chdir(tmp_path)
    assert run(*shlex.split(told["replay"]["command"])[1:], "--quiet") == 0
    assert out.read_bytes() == first


def test_large_files_have_what_is_fast(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.assessment.measuring.REPORT_CELLS", 100)
    out, page = tmp_path / "out.csv", tmp_path / "r.html"
    assert run("protect", source, "-o", out, "--method", "pca", "--report", page, "--quiet") == 0
    told = strictly(tmp_path / "r.json")
    assert {"dbrl", "interval_disclosure_own", "pil", "ks"} <= set(told["measures"])
    assert {"optimal_linkage", "classifier_auc", "score_2"}.isdisjoint(told["measures"])
    assert "only what is fast was measured" in page.read_text()


def test_the_public_report_of_the_command_line(source: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    assert run("protect", source, "-o", tmp_path / "o.csv", "--public-report", page, "--seed", SEED, "--quiet") == 0
    told = strictly(tmp_path / "p.json")
    assert {"pil", "ks"} <= set(told["measures"])
    assert told["identity"]["file"]["name"] == "o.csv"
    assert source.name not in page.read_text()
    assert str(SEED) not in page.read_text() + json.dumps(told)


def test_reports_that_would_overwrite_each_other_are_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["protect", source, "-o", tmp_path / "o.csv"]
    assert run(*asked, "--report", tmp_path / "r.html", "--public-report", tmp_path / "r.htm") == 2
    assert "two outputs have the same name" in capsys.readouterr().err
    assert run(*asked, "--report", tmp_path / "r.json") == 2
    assert "call the report .html" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.slow
def test_a_comparison_has_a_report(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["compare", source, "--methods", "noise, shuffle", "--repeats", 2, "--measures", "dbrl,pil", "--seed", 1]
    assert run(*asked, "--report", tmp_path / "s.html") == 0
    assert f"Wrote {tmp_path / 's.html'}" in capsys.readouterr().out
    text, told = (tmp_path / "s.html").read_text(), strictly(tmp_path / "s.json")
    assert text.count("<svg") == 1
    assert set(told["study"]["frontier"]) | set(told["study"]["rejected"]) == {"noise", "shuffle"}
    assert {row["label"] for row in told["plots"]["ru_map"]["rows"]} == {"noise", "shuffle"}
    assert run(*asked, "--measures", "dbrl", "--report", tmp_path / "s.html", "--overwrite") == 0, (
        "half a map is no reason to fail"
    )
    assert "a measure of risk and one of loss" in (tmp_path / "s.html").read_text()


def test_sentences_end_once_and_the_engine_is_the_one_that_ran(case: Case) -> None:
    assert case.release.settings["engine"] == "auto"
    assert case.json["internal"]["context"]["engine"] == "memory"
    for text in case.html.values():
        assert not re.search(r"\w\.\.(?!\.)", text)


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


def test_labels_alone_have_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    columns = {name: rng.choice(["x", "y", "z"], 300) for name in ("area", "party", "trade")}
    pl.DataFrame(columns).write_csv(tmp_path / "in.csv")
    paths = [str(tmp_path / name) for name in ("in.csv", "out.csv", "r.html")]
    with pytest.raises(SystemExit) as ended:
        main(["protect", paths[0], "-o", paths[1], "--report", paths[2]])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "Protected 3 columns of 300 rows" in said
    assert "labels are others in" in said
    assert "come back as they were" not in said
    told = strictly(tmp_path / "r.json")
    assert told["dose"].keys() == columns.keys()
    assert [line["statistic"] for line in told["kept"]] == ["two-way tables"]
    assert next(iter(told["measures"])) == "mixed_linkage"
    assert re.search(r"Risk: \S+ % of records can be linked before, \d\.\d\d % after", said)
    assert not told["skipped"]
    assert told["plots"]["losses"]["absent"].endswith("only labels are protected, and this picture is of numbers")
    assert told["plots"]["two_way"]["rows"]


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
