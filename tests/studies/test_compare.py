"""A comparison: what is run, how it is summed up, and that a killed one goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.studies import Study, measures_for

MEASURES = ["dbrl", "pil", "ks"]


def firms(rows: int = 120) -> NDArray[np.float64]:
    rng = np.random.default_rng(3)
    return np.exp(rng.standard_normal((rows, 3)) @ np.array([[1, 0.5, 0.2], [0, 0.8, 0.3], [0, 0, 0.6]]))


def compared(**options: Any) -> Study:
    chosen = {"repeats": 3, "measures": MEASURES, "seed": 1, "workers": 1, **options}
    methods = chosen.pop("methods", ["pca", "noise", ("microaggregate", {"group_size": 4})])
    return mv.compare(chosen.pop("data", firms()), methods, **chosen)


def test_every_method_is_released_as_often_as_asked_and_one_without_luck_once() -> None:
    study = compared()
    assert list(study.methods) == ["pca", "noise", "microaggregate group_size=4"]
    assert {label: len(found) for label, found in study.figures.items()} == {
        "pca": 3,
        "noise": 3,
        "microaggregate group_size=4": 1,
    }
    assert study.measures == [*MEASURES, "worst_attack"]


def test_figures_are_those_of_releases_one_by_one() -> None:
    data = firms()
    study = compared(methods={"mine": ("rank_swap", {"rank_window": 0.2})}, repeats=2)
    for figures in study.figures["mine"]:
        assert figures.keys() == {*MEASURES, "worst_attack"}
    assert study.values("mine", "ks") == pytest.approx([0.0, 0.0])
    assert study.chances["mine"]["dbrl"] == pytest.approx(1 / len(data))


def test_risk_is_that_of_sensitive_columns_and_scores_are_made_of_both() -> None:
    parts = ["propensity_2", "pil", "dbrl", "interval_disclosure"]
    study = compared(methods=["pca"], measures=["score_2", *parts], sensitive=[0, 1])
    assert study.measures == ["score_2", *parts, "sensitive_correlation", "worst_attack"]
    for found in study.figures["pca"]:
        assert found["score_2"] == pytest.approx(np.mean([found[part] for part in parts]), rel=1e-12)


@pytest.mark.slow
def test_a_seed_repeats_a_study_and_workers_do_not_matter() -> None:
    one, again, parallel = compared(), compared(), compared(workers=2)
    assert one.to_dict() == again.to_dict() == parallel.to_dict()
    assert compared(seed=2).to_dict() != one.to_dict()
    assert compared(seed=None).to_dict() != compared(seed=None).to_dict()


def test_a_method_has_the_same_figures_whichever_others_are_compared() -> None:
    alone, among = compared(methods=["noise"]), compared()
    assert alone.figures["noise"] == among.figures["noise"]


def test_intervals_are_percentiles_of_releases_and_of_resampled_means() -> None:
    values = np.arange(1.0, 101.0)
    study = Study(
        {"a": ("noise", {})}, {"a": [{"pil": value} for value in values]}, {"a": {}}, {}, make_frame=pd.DataFrame
    )
    found = study.summary("a", "pil")
    assert found.mean == pytest.approx(50.5)
    assert (found.low, found.high) == (pytest.approx(3.475), pytest.approx(97.525))
    standard_error = values.std() / 10
    assert found.mean_high - found.mean_low == pytest.approx(2 * 1.96 * standard_error, rel=0.1)
    frame = study.to_frame()
    assert list(frame.columns[:5]) == ["label", "measure", "mean", "low", "high"]
    assert frame["repeats"].tolist() == [100]


def hand_made() -> Study:
    figures = {
        "safe": [{"dbrl": 0.01, "pil": 0.4}, {"dbrl": 0.01, "pil": 0.4}],
        "useful": [{"dbrl": 0.20, "pil": 0.1}, {"dbrl": 0.20, "pil": 0.1}],
        "middle": [{"dbrl": 0.00, "pil": 0.2}, {"dbrl": 0.10, "pil": 0.2}],
        "beaten": [{"dbrl": 0.20, "pil": 0.3}, {"dbrl": 0.20, "pil": 0.3}],
    }
    return Study({label: ("noise", {}) for label in figures}, figures, {}, {})


def test_the_frontier_has_what_no_other_beats() -> None:
    assert hand_made().frontier(risk="dbrl") == ["safe", "middle", "useful"]


def test_the_best_keeps_the_limit_in_nearly_every_release() -> None:
    study = hand_made()
    assert study.best({"dbrl": 0.3}) == "useful"
    assert study.best({"dbrl": 0.06}) == "safe"  # the middle one is within .06 only on average
    assert study.best({"dbrl": 0.06}, use="mean") == "middle"
    assert study.best({"dbrl": 0.001}) is None
    assert study.best({"dbrl": 0.3, "pil": 0.15}, loss="dbrl") == "useful"


def test_a_method_that_leaves_a_sensitive_column_is_in_no_ranking_however_little_it_loses() -> None:
    idle = ("rank_swap", {"confidential": [2], "rank_window": 0.02})
    methods = {"others": idle, "ipso": ("ipso", {"confidential": [0], "public": [1, 2]})}
    study = compared(methods=methods, sensitive=[0], repeats=2)
    assert study.unprotected == {"others": pytest.approx(1.0)}
    assert study.summary("others", "pil").mean < study.summary("ipso", "pil").mean
    assert study.ranked({"dbrl": 1.0}) == ["ipso"] == study.frontier(risk="dbrl")
    assert study.best({"dbrl": 1.0}) == "ipso"
    assert study.to_dict()["unprotected"] == study.unprotected
    assert not compared(methods=methods, repeats=2).unprotected  # nobody said what is to be hidden


@pytest.mark.parametrize(("kept", "out"), [([0.89, 0.91], False), ([0.89, 0.92], True)])
def test_the_mean_correlation_of_the_releases_decides(kept: list[float], out: bool) -> None:
    figures = {"one": [{"dbrl": 0.0, "pil": 0.1, "sensitive_correlation": value} for value in kept]}
    study = Study({"one": ("noise", {})}, figures, {}, {})
    assert (study.best({"dbrl": 1.0}) is None) == out


def with_an_infinite_figure() -> Study:
    figures = {
        "whole": [{"kl": 1.0, "pil": 0.4, "dbrl": 0.1}] * 5,
        "once infinite": [{"kl": 0.1, "pil": 0.1, "dbrl": 0.1}] * 4 + [{"pil": 0.1, "dbrl": 0.1}],
        "infinite": [{"pil": 0.2, "dbrl": 0.0}] * 5,
    }
    return Study(
        {label: ("noise", {}) for label in figures}, figures, {}, {}, requested=["kl", "pil", "dbrl", "nothing"]
    )


def test_a_missing_figure_keeps_no_limit_and_is_on_no_frontier() -> None:
    study = with_an_infinite_figure()
    assert study.best({"kl": 5.0}) == "whole"
    assert study.best({"kl": 5.0}, use="mean") == "whole"
    assert study.best({"nothing": 5.0}) is None, "it was asked for, and no release has it"
    assert study.best({"dbrl": 0.2}, loss="kl") == "whole"
    assert study.frontier(risk="kl") == ["whole"]
    assert {row.label for row in study.summaries() if row.measure == "kl"} == {"whole"}
    assert study.missing == {"whole": ["nothing"], "once infinite": ["kl", "nothing"], "infinite": ["kl", "nothing"]}
    assert study.to_dict()["missing"] == study.missing
    with pytest.raises(ParameterError, match="'kl' of 'once infinite' is infinite or missing in 1 of 5 releases"):
        study.summary("once infinite", "kl")
    with pytest.raises(ParameterError, match="'bogus' was not measured"):
        study.best({"bogus": 1.0})


def test_an_infinite_divergence_is_missing_and_the_rest_is_measured() -> None:
    study = compared(
        methods=["pca", ("component_removal", {"threshold": 0.1})], measures=["pil", "kl_gaussian", "dbrl"]
    )
    assert study.missing == {"component_removal threshold=0.1": ["kl_gaussian"]}
    assert study.best({"kl_gaussian": 5.0}) == "pca"


def test_of_few_releases_there_is_no_interval_unless_nothing_is_drawn() -> None:
    study = compared(repeats=4)
    drawn, fixed = study.summary("noise", "pil"), study.summary("microaggregate group_size=4", "pil")
    assert (drawn.low, drawn.high, drawn.mean_low, drawn.mean_high) == (None,) * 4
    assert fixed.low == fixed.high == fixed.mean
    enough = compared(repeats=5).summary("noise", "pil")
    assert enough.low is not None
    assert enough.high is not None
    assert enough.low < enough.mean < enough.high
    assert study.worst("noise", "pil") == study.values("noise", "pil").max()


def test_counts_of_releases_are_whole_numbers() -> None:
    import polars as pl

    assert compared().to_frame().schema["repeats"] == pl.Int64
    assert compared(data=pd.DataFrame(firms(), columns=list("abc"))).to_frame()["repeats"].dtype == np.int64


@pytest.mark.parametrize(
    ("measures", "limit", "found"),
    [
        (["dbrl"], {}, ["dbrl"]),
        (["dbrl"], {"dbrl": 0.1}, ["dbrl", "pil"]),
        (["dbrl"], {"ks": 0.1, "worst_attack": 0.1}, ["dbrl", "ks", "pil"]),
    ],
)
def test_what_a_limit_is_on_is_measured_too(measures: list[str], limit: dict[str, float], found: list[str]) -> None:
    assert measures_for(measures, limit) == found


def test_a_limit_on_what_there_is_not_is_refused() -> None:
    with pytest.raises(ParameterError, match="limit: there is no measure 'dblr'; did you mean 'dbrl'"):
        measures_for(["dbrl"], {"dblr": 0.1})
    with pytest.raises(ParameterError, match="worst_attack is the worst of the attacks, and none is measured"):
        measures_for(["pil"], {"worst_attack": 0.1})


def test_a_method_that_fails_is_told_and_does_not_stop_the_others() -> None:
    study = compared(methods=["noise", ("score_mix", {"correlation": 0.5})], data=firms(5))
    assert "rows are too few" in study.failed["score_mix correlation=0.5"]
    assert list(study.figures) == ["noise"]
    with pytest.raises(ParameterError, match="gave no release"):
        study.summary("score_mix correlation=0.5", "pil")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"methods": []}, "methods: takes ids"),
        ({"methods": "pca"}, "methods: takes ids"),
        ({"methods": ["pcb"]}, "there is no method 'pcb'"),
        ({"methods": [("pca", {"componets": 2})]}, "componets"),
        ({"methods": ["pca", "pca"]}, "'pca' is there twice"),
        ({"measures": ["dblr"]}, "there is no 'dblr'"),
        ({"repeats": 0}, "repeats: .*a whole number at least 1"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        compared(**options)


def test_a_store_is_for_its_owner_and_holds_neither_seed_nor_data(tmp_path: Path) -> None:
    store, seed = tmp_path / "study.jsonl", 918_273_645
    data = firms()
    compared(store=store, seed=seed, data=data)
    assert store.stat().st_mode & 0o777 == 0o600
    text = store.read_text(encoding="utf-8")
    assert str(seed) not in text
    assert not any(repr(float(value)) in text for value in data.ravel())
    assert len(text.splitlines()) == 7


def test_finished_releases_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "study.jsonl"
    first = compared(store=store)
    # The last line was being written when the power went.
    text = store.read_text(encoding="utf-8")
    store.write_text(text[:-40], encoding="utf-8")
    made: list[str] = []
    module = sys.modules["microveil.studies.compare"]
    original = module.measured
    monkeypatch.setattr(module, "measured", lambda plan, release: made.append(release.label) or original(plan, release))
    assert compared(store=store).to_dict() == first.to_dict()
    assert len(made) == 1
    made.clear()
    more = compared(store=store, repeats=5)
    assert len(made) == 4  # two more of each method that draws
    assert more.figures["noise"][:3] == first.figures["noise"]
    made.clear()
    compared(store=store, data=firms() * 2)
    assert len(made) == 7  # other data is other work


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    other.write_text('{"title": "notes"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"store: line 1 of .*notes.jsonl is not of a study"):
        compared(store=other)
    assert other.read_text(encoding="utf-8") == '{"title": "notes"}\n'


@pytest.mark.parametrize("text", ["bread and milk\n", "bread and milk", "{}", '{"study": 2, "key"', "\n\nmilk\n"])
def test_no_line_is_added_to_a_file_of_another_kind(text: str, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"notes.txt is not of a study"):
        compared(store=other)
    assert other.read_text(encoding="utf-8") == text


@pytest.mark.quick("8")
@pytest.mark.parametrize("kept", [8, 40])
def test_a_line_that_a_kill_cut_off_is_passed_over_also_later_on(kept: int, tmp_path: Path) -> None:
    store = tmp_path / "study.jsonl"
    first = compared(store=store)
    lines = store.read_text(encoding="utf-8").splitlines(keepends=True)
    store.write_text("".join(lines[:-1]) + lines[-1][:kept], encoding="utf-8")
    assert compared(store=store).to_dict() == first.to_dict()
    assert compared(store=store).to_dict() == first.to_dict()
    assert len(store.read_text(encoding="utf-8").splitlines()) == len(lines) + 1


def test_a_store_that_others_may_read_is_for_its_owner_from_then_on(tmp_path: Path) -> None:
    store = tmp_path / "study.jsonl"
    store.touch(0o644)
    store.chmod(0o644)
    compared(store=store, methods=["noise"])
    assert store.stat().st_mode & 0o777 == 0o600


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"store: .* cannot be written"):
        compared(store=tmp_path / "nowhere" / "study.jsonl")
    with pytest.raises(FileError, match=r"store: .* cannot be read"):
        compared(store=tmp_path)


def test_of_a_table_among_the_settings_nothing_is_shown_or_stored_and_all_cells_count(tmp_path: Path) -> None:
    data = pd.DataFrame(firms(), columns=["a", "b", "c"])
    other = data + 0.123456789
    changed = other.copy()
    changed.iloc[60, 1] += 1.0  # neither head nor tail
    told: list[str] = []
    options: dict[str, Any] = {
        "data": data,
        "store": tmp_path / "study.jsonl",
        "progress": lambda *word: told.append(str(word)),
    }
    first = compared(methods=[("correct", {"other": other})], **options)
    again = compared(methods=[("correct", {"other": changed})], **options)
    assert list(first.methods) == ["correct other"]
    assert not first.failed
    assert first.figures != again.figures, "another table is other work"
    everything = (
        json.dumps(first.to_dict()) + repr(first) + "".join(told) + options["store"].read_text(encoding="utf-8")
    )
    assert not any(f"{value:.4f}" in everything for value in other.to_numpy().ravel())


def test_another_content_of_a_file_among_the_settings_is_other_work(tmp_path: Path) -> None:
    data = pd.DataFrame(firms(), columns=["a", "b", "c"])
    file, store = tmp_path / "other.csv", tmp_path / "study.jsonl"
    found = []
    for shift in (0.5, 5.0):
        (data + shift * np.arange(120)[:, None]).to_csv(file, index=False)
        found.append(compared(data=data, methods=[("correct", {"other": str(file)})], store=store).figures)
    assert found[0] != found[1]


def test_a_release_to_be_made_does_not_show_its_seed() -> None:
    module = sys.modules["microveil.studies.compare"]
    assert "918273" not in repr(module.PlannedRelease("a", "noise", {}, 0, "key", 918273))


SCRIPT = """
import sys
import numpy as np
import microveil as mv

if __name__ == "__main__":
    data = np.exp(np.random.default_rng(0).standard_normal((400, 6)))
    mv.compare(data, ["pca", "noise", "rank_swap"], repeats=12, measures=["dbrl", "pil", "propensity_3"], seed=1,
               store=sys.argv[1], workers=2)
    print("finished")
"""


@pytest.mark.slow
def test_a_killed_study_goes_on_and_leaves_no_worker_behind(tmp_path: Path) -> None:
    script, store = tmp_path / "study.py", tmp_path / "study.jsonl"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), str(store)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not store.exists() or store.read_bytes().count(b"\n") < 4):
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = [
        json.loads(line) for line in store.read_text(encoding="utf-8").splitlines(keepends=True) if line[-1] == "\n"
    ]
    assert 4 <= len(before) < 36
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _alive_in(running.pid):
        time.sleep(0.1)
    assert not _alive_in(running.pid)
    again = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "finished" in again.stdout
    after = [json.loads(line) for line in store.read_text(encoding="utf-8").splitlines() if line]
    keys = [cell["key"] for cell in after if isinstance(cell, dict)]
    assert len(keys) == len(set(keys)) == 36
    assert keys[: len(before)] == [cell["key"] for cell in before]


def _alive_in(session: int) -> bool:
    """Is any process of the session still there?"""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                return True
    return False


def test_methods_are_compared_on_numbers_where_a_table_has_labels_too() -> None:
    rng = np.random.default_rng(3)
    data = pl.DataFrame(
        {"town": rng.choice(["a", "b"], 200), "x": rng.lognormal(size=200), "y": rng.lognormal(size=200)}
    )
    study = mv.compare(data, ["veil", "noise"], repeats=1, measures=["pil"], seed=1, workers=1)
    assert not study.failed
    assert set(study.figures) == {"veil", "noise"}
