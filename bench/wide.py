"""Time and memory of tables with more columns than rows: every method, `describe` and `assess`, one process each.

Writes bench/wide.json and prints a table. Times are CPU seconds of the call alone, memory is the peak of the process,
libraries included. A method that refuses a table says so, and how long that took.

Exit code 1 if a limit is exceeded, or if something did not end in time.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import microveil as mv
from microveil.core.errors import MicroveilError

RESULTS = Path(__file__).with_name("wide.json")

SIZES = [(50, 1_000), (50, 3_000)]
FURTHER = [
    ("pca", 50, 10_000),
    ("veil", 50, 10_000),
    ("veil", 200, 2_000),
    ("describe", 50, 10_000),
    ("assess", 50, 1_000),
    ("assess", 50, 3_000),
]
LIMITS = {("pca", 50, 10_000): 20.0, ("veil", 50, 1_000): 30.0, ("veil", 200, 2_000): 120.0}
"""CPU seconds at most."""

MOST_SECONDS = 900
"""Seconds on the clock after which a run counts as one that does not end."""


def make_data(rows: int, columns: int) -> np.ndarray:
    """Lognormal columns that share one factor."""
    rng = np.random.default_rng(1)
    return np.exp(rng.normal(size=(rows, columns)) / 2 + rng.normal(size=(rows, 1))) * 100


def run_one(what: str, rows: int, columns: int) -> dict[str, Any]:
    """One run, in this process."""
    warnings.simplefilter("ignore")
    data = make_data(rows, columns)
    noisy = data * np.random.default_rng(2).lognormal(0, 0.1, data.shape)
    beside = {"other": noisy} if what in ("correct", "synthetic_addition") else {}
    release = mv.protect(data, "pca", seed=1).data if what == "assess" else None
    start, refused = time.process_time(), ""
    try:
        if what == "describe":
            mv.describe(data)
        elif what == "assess":
            mv.assess(data, release, seed=1)
        else:
            mv.protect(data, what, seed=1, **beside)
    except MicroveilError as error:
        refused = error.problem
    taken = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return {"what": what, "rows": rows, "columns": columns, "cpu_s": taken, "peak_gb": peak, "refused": refused}


def in_a_process(what: str, rows: int, columns: int) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, what, str(rows), str(columns)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return {"what": what, "rows": rows, "columns": columns, "cpu_s": None, "peak_gb": None, "refused": ""}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(run_one(sys.argv[1], *(int(number) for number in sys.argv[2:4]))))
        return 0
    runs = [(name, *size) for name in mv.methods() for size in SIZES] + FURTHER
    cases, failed = [], False
    for run in runs:
        case = in_a_process(*run) | {"limit": LIMITS.get(run)}
        cases.append(case)
        taken = case["cpu_s"]
        failed |= taken is None or taken > (case["limit"] or np.inf)
        shown = "did not end" if taken is None else f"{taken:6.1f} s {case['peak_gb']:5.2f} GB"
        print(f"{run[0]:30} {run[1]} x {run[2]:,}: {shown} {case['refused']}", flush=True)
    about = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps(about | {"numpy": np.__version__, "cases": cases}, indent=2) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
