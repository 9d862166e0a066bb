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
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.studies import Study

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
    assert study.measures == ["score_2", *parts, "worst_attack"]
    for found in study.figures["pca"]:
        assert found["score_2"] == pytest.approx(np.mean([found[part] for part in parts]), rel=1e-12)


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
        ({"repeats": 0}, "repeats: 0 releases asked"),
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
    original = module._measured
    monkeypatch.setattr(module, "_measured", lambda work, cell: made.append(cell.label) or original(work, cell))
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
    with pytest.raises(DataError, match="store: line 1 is not of a study"):
        compared(store=other)
    assert other.read_text(encoding="utf-8") == '{"title": "notes"}\n'


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
