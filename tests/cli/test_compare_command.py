"""`microveil compare` as people type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from microveil.api import example_file

COLUMNS = "turnover_domestic,wages,materials"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "microveil", "compare", str(example_file()), "--confidential", COLUMNS, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


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
