"""`microveil compare` as people type it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from microveil.catalogue import example_file
from microveil.cli.actions import _typed as typed
from microveil.cli.typed import from_typed, methods_in
from microveil.core.errors import ParameterError
from microveil.io.locations import place_from
from microveil.options import RecommendFile

COLUMNS = "employees,wages,materials"


COMMAND = [sys.executable, "-m", "microveil", "compare", str(example_file()), "--confidential", COLUMNS]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], check=False, capture_output=True, text=True)


@pytest.mark.slow
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


@pytest.mark.slow
def test_bad_usage_ends_with_two() -> None:
    for arguments in (["--methods", "pcb"], ["--methods", "noise", "--limit", "dbrl"], ["--methods", "noise bogus=1"]):
        done = run(*arguments)
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith("microveil: ")


@pytest.mark.slow
def test_an_infinite_figure_keeps_no_limit() -> None:
    asked = ["--methods", "pca, component_removal threshold=0.1", "--repeats", "2", "--seed", "1"]
    done = run(*asked, "--measures", "pil,kl_gaussian,dbrl", "--limit", "kl_gaussian=5")
    assert done.returncode == 0, done.stderr
    assert "Infinite or missing: kl_gaussian of component_removal threshold=0.1" in done.stdout
    assert "Least loss within kl_gaussian 5: pca" in done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_of_few_releases_no_interval_is_shown_and_the_reason_is() -> None:
    asked = ["--methods", "noise", "--measures", "dbrl,pil", "--seed", "1"]
    few = run(*asked, "--repeats", "2").stdout
    assert "where 95 % of releases lie" not in few
    assert "from 5 releases on" in few
    assert "- of 2" in few
    enough = run(*asked, "--repeats", "5").stdout
    assert "mean, and where 95 % of releases lie" in enough
    assert "] of 5" in enough


def test_lists_and_text_among_the_settings_may_have_commas_and_spaces() -> None:
    assert methods_in("pca components=[0, 2], noise noise_sd_ratio=0.5 ,rank_swap") == [
        ("pca", {"components": [0, 2]}),
        ("noise", {"noise_sd_ratio": 0.5}),
        ("rank_swap", {}),
    ]
    assert methods_in('pca sensitive=["a, b","c"]') == [("pca", {"sensitive": ["a, b", "c"]})]
    for text in ("pca components=[0,2", 'pca sensitive="a', "pca components=0]"):
        with pytest.raises(ParameterError, match="is left open"):
            methods_in(text)
    done = run("--methods", "pca components=[0,2]", "--measures", "pil", "--repeats", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["methods"]["pca components=[0, 2]"]["parameters"] == {"components": [0, 2]}


def test_the_command_that_is_advised_has_the_roles_and_makes_the_release() -> None:
    source = place_from("firms, new.csv")
    roles = {"confidential": "a,b", "public": "~ c*d", "strata": "e", "weight": "w", "rules": "none"}
    roles = from_typed(RecommendFile, roles)
    given = {**roles, "components": [0, 2], "sensitive": ["a"], "select": "all"}
    assert typed(source, RecommendFile(**roles, delimiter="semicolon"), "pca", given) == (
        "microveil protect 'firms, new.csv' -o OUTPUT --method pca --set 'components=[0, 2]' --set 'sensitive=[\"a\"]' "
        "--set select=all --confidential a,b --public '~ c*d' --strata e --weight w --rules none --delimiter semicolon"
    )


@pytest.mark.slow
def test_advice_with_weights_is_given_on_the_command_line(tmp_path: Path) -> None:
    survey = tmp_path / "survey.csv"
    survey.write_text("\n".join(example_file().read_text(encoding="utf-8").splitlines()[:90]), encoding="utf-8")
    asked = [str(survey), "--confidential", COLUMNS, "--weight", "weight", "--repeats", "1", "--seed", "1"]
    command = [sys.executable, "-m", "microveil", "recommend", *asked, "--limit", "pil=1"]
    told = subprocess.run(command, check=False, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    line = next(line for line in told.stdout.splitlines() if line.startswith("Run: microveil protect"))
    assert re.search(f"--confidential {COLUMNS} --(protected-)?weight weight", line), "in clear, or protected with them"
    words = shlex.split(line.removeprefix("Run: microveil "))
    output = tmp_path / "released.csv"
    again = [str(output) if word == "OUTPUT" else word for word in words]
    done = subprocess.run([sys.executable, "-m", "microveil", *again], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert output.exists()


@pytest.mark.slow
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
