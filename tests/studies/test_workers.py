"""The processes of a study, as scripts meet them: they do not run the script again, and end when it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from microveil.studies.workers import task_pool

PLAIN = """
print("top level")
import numpy as np
import microveil as mv
before = vars().get("__file__"), __spec__
data = np.exp(np.random.default_rng(0).standard_normal((60, 3)))
study = mv.compare(data, ["pca", "noise"], repeats=2, measures=["dbrl", "pil"], seed=1, workers=2)
assert before == (vars().get("__file__"), __spec__)
print(study)
"""

GUARDED = """
print("top level")
import numpy as np
import microveil as mv
if __name__ == "__main__":
    data = np.exp(np.random.default_rng(0).standard_normal((60, 3)))
    print(mv.compare(data, ["pca", "noise"], repeats=2, measures=["dbrl", "pil"], seed=1, workers=2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [PLAIN, GUARDED])
@pytest.mark.parametrize("piped", [False, True])
def test_a_script_runs_once_whether_guarded_or_not_and_piped_or_not(text: str, piped: bool, tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(text, encoding="utf-8")
    command = [sys.executable, "-" if piped else str(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, input=text if piped else None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top level") == 1
    assert "<Study of 2 methods, 4 releases, 3 measures>" in done.stdout
    assert done.stderr == ""


OWN_CLASS = """
import pandas as pd
import microveil as mv
from microveil.errors import DataError

class Mine(pd.DataFrame):
    pass

data = Mine({"a": range(60), "b": [n % 7 for n in range(60)], "c": [n * n % 11 for n in range(60)]})
try:
    mv.compare(data, ["pca", "noise"], repeats=2, measures=["dbrl"], seed=1, workers=2)
except DataError as error:
    print(error)
"""


@pytest.mark.slow
def test_data_of_a_class_that_only_the_script_knows_are_refused_with_a_way_out(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(OWN_CLASS, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "classes of your own" in done.stdout
    assert "use workers=1" in done.stdout


LONG = """
import sys
import numpy as np
import microveil as mv
data = np.exp(np.random.default_rng(0).standard_normal((1500, 8)))
mv.compare(data, ["pca", "noise"], repeats=500, measures=["optimal_linkage", "propensity_3", "pil"], seed=1,
           store=sys.argv[1], workers=2)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_study_at_once_and_only_the_study_complains(tmp_path: Path) -> None:
    script, store = tmp_path / "study.py", tmp_path / "study.jsonl"
    script.write_text(LONG, encoding="utf-8")
    command = [sys.executable, str(script), str(store)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and (not store.exists() or not store.read_bytes()):
        time.sleep(0.05)
    stopped = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, complaint = running.communicate(timeout=60)
    assert time.monotonic() - stopped < 20  # the study would take many minutes more
    assert running.returncode == -signal.SIGINT
    assert complaint.count("KeyboardInterrupt") == 1


def linger(_: None, seconds: float) -> None:
    time.sleep(seconds)


def test_a_pool_that_runs_out_of_time_leaves_no_thread_behind() -> None:
    """Such a thread closes what the end of the interpreter writes to, which then complains on standard error."""
    before = set(threading.enumerate())
    with task_pool(linger, None, 2) as run:
        assert not run([60.0] * 5, lambda number, result: None, until=time.monotonic() + 0.5)
        assert set(threading.enumerate()) == before
