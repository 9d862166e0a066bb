"""Reports: what the public one must never hold, what the internal one must, and that both are read anywhere."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from reported import PLOTS, SEED, Case, holds, public_texts, strictly, written

from microveil.io.frames.dataframes import fingerprint
from microveil.report import plots


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
    edge = case.json["internal"]["plots"]["histograms"]["rows"][0]["at"]
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
    text = re.sub(r"</?summary>|summary (h2 )?\{", "", text)  # an element of pages, and the name of a score
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
    verdicts = {line["use"]: line["verdict"] for line in told["uses"]}
    assert verdicts["correlations, linear regressions, principal components"] == "as on the original"
    assert verdicts["distributions, quantiles, shares above a threshold"] == "not from this file", "pca keeps none"
    assert re.search(r"Use the file for [^<]*correlations", text)
    assert re.search(r"Not from this file: [^<]*quantiles", text)
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
        assert f">{name}<small>" in text
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
    assert len(told["record"]) == 8, "what a data-protection officer asks"
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
        assert drawn == {"internal": 5, "public": 0}[audience]
        assert told["plots"]["losses"]["absent"]
    if part == "assessment":
        assert told["measures"] == {}
        assert "not" in re.search(r'class="absent">([^<]*measured[^<]*)<', text)[1] or "nothing" in text


def broken(*_: object) -> str:
    raise RuntimeError("no picture of 123.456")


def test_sentences_end_once_and_the_engine_is_the_one_that_ran(case: Case) -> None:
    assert case.release.settings["engine"] == "auto"
    assert case.json["internal"]["context"]["engine"] == "memory"
    for text in case.html.values():
        assert not re.search(r"\w\.\.(?!\.)", text)


def words_of(page: str) -> str:
    """What a reader sees of a page: no markup, no picture."""
    return re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page, flags=re.DOTALL)


@pytest.mark.parametrize("audience", ["internal", "public"])
def test_a_page_has_no_remains_of_a_program(case: Case, audience: str) -> None:
    text = words_of(case.html[audience])
    command = text.index("microveil protect") if audience == "internal" else len(text)
    for remains in (r"\[\]", r"\bNone\b", r"\{", r"\de[-+]\d", r"\bnan\b", r"\b0\.\d{7,}"):
        assert re.search(remains, text[:command]) is None, remains


def test_the_first_screen_has_both_figures_and_what_is_to_be_decided(case: Case) -> None:
    risk, loss = case.json["internal"]["screen"]["lights"]
    assert risk["share"] == case.assessment.worst_gain
    assert (risk["colour"], risk["word"]) == ("amber", "raised"), "some components were left as they are"
    ranks = (
        case.assessment["rank_correlation_difference"].value / case.assessment.known("rank_correlation_difference")[1]
    )
    assert loss["share"] == pytest.approx(max(ranks, case.assessment["ks"].value)), "the worst loss counts"
    text = words_of(case.html["internal"])
    assert text.index("To be decided") < text.index("Before and after") < text.index("Identity")
    decide = case.json["internal"]["screen"]["lists"][0]["lines"]
    assert {"Risk", "Policy", "Disclosed exactly", "Warning"} <= {line["about"] for line in decide}
    (public,) = case.json["public"]["screen"]["lights"]
    assert public["name"] == "Loss"
    for page in case.html.values():
        assert "anonymous" not in re.sub(
            r"(No figure here says|This report does not say) that the data are anonymous", "", page
        )


def test_what_was_found_broken_is_never_advised(case: Case) -> None:
    from dataclasses import replace

    from microveil.report.analyses import ANALYSES, analyses
    from microveil.report.material import Material
    from microveil.report.public import public_contents

    worse = {one.measure: one.limits[1] * 1.1 for one in ANALYSES if one.measure in case.assessment}
    assert len(worse) >= 4
    figures = {name: replace(m, value=worse.get(name, m.value)) for name, m in case.assessment.items()}
    told = public_contents(Material(case.release, assessment=replace(case.assessment, figures=figures)))
    broken = {one.use for one in ANALYSES if one.measure in worse}
    good, bad = (" ".join(line["said"] for line in part["lines"]) for part in told["screen"]["lists"])
    for use in broken:
        assert use not in good
        assert use in bad
        assert use not in next(line for line in told["advice"] if line.startswith("Use the file for"))
    assert not any(case.assessment.entries[one.measure].paired for one in ANALYSES if one.measure in case.assessment)
    unmeasured = analyses(Material(case.release))
    assert {line["verdict"] for line in unmeasured if "trees" in line["use"]} == {"not measured"}


def test_marks_tell_their_numbers_to_the_owner_only(case: Case) -> None:
    inside = r"<path[^>]*><title>[^<]+</title></path>"
    assert len(re.findall(inside, case.html["internal"])) > 50
    assert not re.findall(inside, case.html["public"])
