"""`microveil compare` as people type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from microveil.api import example_file

COLUMNS = "turnover_domestic,wages,materials"


COMMAND = [sys.executable, "-m", "microveil", "compare", str(example_file()), "--confidential", COLUMNS]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], check=False, capture_output=True, text=True)


def test_a_study_as_json_and_for_people(tmp_path: Path) -> None:
    asked = ["--methods", "noise, rank_swap rank_window=0.1", "--measures", "dbrl,pil", "--seed", "1", "--repeats", "2"]
    store = ["--store", str(tmp_path / "study.jsonl")]
    done = run(*asked, *store, "--limit", "dbrl=1", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["methods"]) == {"noise", "rank_swap rank_window=0.1"}
    assert {row["measure"] for row in told["figures"]} == {"dbrl", "pil", "worst_attack"}
    assert told["best"] in told["methods"]
    shown = run(*asked, *store)
    assert "rank_swap rank_window=0.1" in shown.stdout
    assert "Beaten by no other" in shown.stdout


def test_bad_usage_ends_with_two() -> None:
    for arguments in (["--methods", "pcb"], ["--methods", "noise", "--limit", "dbrl"], ["--methods", "noise bogus=1"]):
        done = run(*arguments)
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith("microveil: ")


def test_an_infinite_figure_keeps_no_limit() -> None:
    asked = ["--methods", "pca, component_removal threshold=0.1", "--repeats", "2", "--seed", "1"]
    done = run(*asked, "--measures", "pil,kl_gaussian,dbrl", "--limit", "kl_gaussian=5")
    assert done.returncode == 0, done.stderr
    assert "Infinite or missing: kl_gaussian of component_removal threshold=0.1" in done.stdout
    assert "Least loss within kl_gaussian 5: pca" in done.stdout


def test_limits_are_checked_before_the_study_and_measured_if_nobody_asked() -> None:
    asked = ["--methods", "noise", "--repeats", "2", "--seed", "1", "--measures", "dbrl"]
    done = run(*asked, "--limit", "nix=1")
    assert done.returncode == 2
    assert "limit: there is no measure 'nix'" in done.stderr
    told = json.loads(run(*asked, "--limit", "ks=1", "--json").stdout)
    assert {row["measure"] for row in told["figures"]} == {"dbrl", "ks", "pil", "worst_attack"}
    assert told["best"] == "noise"
    alone = run(*asked, "--json")
    assert alone.returncode == 0, alone.stderr
    assert json.loads(alone.stdout)["frontier"] == []


def test_of_few_releases_no_interval_is_shown_and_the_reason_is() -> None:
    asked = ["--methods", "noise", "--measures", "dbrl,pil", "--seed", "1"]
    few = run(*asked, "--repeats", "2").stdout
    assert "where 95 % of releases lie" not in few
    assert "from 5 releases on" in few
    assert "- of 2" in few
    enough = run(*asked, "--repeats", "5").stdout
    assert "mean, and where 95 % of releases lie" in enough
    assert "] of 5" in enough


def test_who_stops_a_study_is_told_that_its_finished_releases_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "study.jsonl"
    asked = ["--methods", "noise", "--measures", "optimal_linkage,pil", "--repeats", "500", "--store", str(store)]
    running = subprocess.Popen([*COMMAND, *asked, "--quiet"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and (not store.exists() or not store.read_bytes()):
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.startswith(f"microveil: stopped; finished releases are in {store}")
    assert said.count("\n") == 1
