"""Time of a study: five methods, twenty releases of each, default measures, 1,000 x 13, on two cores.

Writes bench/study_time.json and prints a line. CPU seconds are those of this process and of its workers together; on a
machine that others use too, they tell more than the clock. Then a smaller one is begun, killed after a few releases
and begun again, to see that no finished release is made twice. Last comes `recommend` on 20,000 rows with all attacks,
which has a minute on the clock; `python bench/study_time.py recommend` measures that alone.

Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from run import make_skewed_data

RESULTS = Path(__file__).with_name("study_time.json")

ROWS, COLUMNS, REPEATS, WORKERS = 1_000, 13, 20, 2
METHODS = ["veil", "pca", "primp_cholesky", "rank_swap", "microaggregate_noise"]
"""The default, which is the slowest, and one of each kind."""

MOST_SECONDS = 180.0
"""On the clock of a machine with two cores and nothing else to do: so much of both of them, in CPU seconds."""

ADVISED_ROWS, ADVISED_SECONDS = 20_000, 60.0
"""Of `recommend`, which is to answer within a minute on the clock."""

KILL_AFTER, FEW = 6, 4
"""Finished releases at the kill, and how many of each method the study has that is killed."""


def study(store: Path, repeats: int) -> dict[str, float]:
    """Seconds of one study in this process and its workers."""
    import microveil as mv

    wall = time.perf_counter()
    found = mv.compare(make_skewed_data(ROWS, COLUMNS), METHODS, repeats=repeats, seed=1, workers=WORKERS, store=store)
    wall = time.perf_counter() - wall
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(times.ru_utime + times.ru_stime for times in used)
    return {"wall_s": wall, "cpu_s": cpu, "measures": len(found.measures), "failed": len(found.failed)}


def advice() -> dict[str, object]:
    """What `microveil recommend` took for a table of 20,000 rows, start and reading included, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        table = make_skewed_data(ADVISED_ROWS, COLUMNS)
        np.savetxt(
            file, table, fmt="%.2f", delimiter=",", header=",".join(f"v{k}" for k in range(COLUMNS)), comments=""
        )
        wall = time.perf_counter()
        command = [sys.executable, "-m", "microveil", "recommend", str(file), "--seed", "1", "--json"]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    times = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"rows": ADVISED_ROWS, "wall_s": time.perf_counter() - wall, "cpu_s": times.ru_utime + times.ru_stime}
    return {**found, "load": os.getloadavg()[0], **{name: said[name] for name in ("label", "sure", "untried")}}


def keys(store: Path) -> list[str]:
    """Finished releases; a line that was cut off is none."""
    lines = store.read_bytes().split(b"\n") if store.exists() else []
    return [json.loads(line)["key"] for line in lines[:-1] if line]


def killed_and_resumed(store: Path) -> dict[str, int]:
    """How many releases there were at the kill, at the end, and how many were made twice."""
    command = [sys.executable, __file__, str(store), str(FEW)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while running.poll() is None and len(keys(store)) < KILL_AFTER:
        time.sleep(0.1)
    running.kill()
    if running.wait() != -signal.SIGKILL:
        raise SystemExit("the study ended before it could be killed")
    before = keys(store)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = keys(store)
    return {"at_kill": len(before), "at_end": len(after), "twice": len(after) - len(set(after))}


def main() -> int:
    if sys.argv[1:] == ["recommend"]:
        results = json.loads(RESULTS.read_text(encoding="utf-8")) | {"recommend": advice()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        print(json.dumps(results["recommend"], indent=2))
        return 0 if results["recommend"]["wall_s"] <= ADVISED_SECONDS else 1
    if len(sys.argv) > 1:
        print(json.dumps(study(Path(sys.argv[1]), int(sys.argv[2]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, str(Path(folder) / "whole.jsonl"), str(REPEATS)]
        case = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        again = killed_and_resumed(Path(folder) / "killed.jsonl")
    about = {"rows": ROWS, "columns": COLUMNS, "methods": METHODS, "repeats": REPEATS, "workers": WORKERS}
    results = {**about, "limit_s": MOST_SECONDS, **case, "resumed": again, "recommend": advice()}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(
        f"{len(METHODS)} methods x {REPEATS} releases of {ROWS:,} x {COLUMNS}, {case['measures']} measures: "
        f"{case['wall_s']:.0f} s on the clock, {case['cpu_s']:.0f} CPU s (at most {MOST_SECONDS:.0f} s on {WORKERS} "
        f"cores); killed after {again['at_kill']} releases, {again['twice']} of {again['at_end']} were made twice"
    )
    broken = [] if case["cpu_s"] <= WORKERS * MOST_SECONDS else ["the study takes too long"]
    broken += [] if not again["twice"] and again["at_end"] == len(METHODS) * FEW else ["releases were made twice"]
    broken += [] if results["recommend"]["wall_s"] <= ADVISED_SECONDS else ["recommend takes more than a minute"]
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
