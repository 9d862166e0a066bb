"""Time and memory as tables grow: 10,000 to 10,000,000 rows of 13 amounts, and 10 to 300 columns of 10,000 rows.

    python bench/growth.py [what ...] [--peer ENVIRONMENT/bin/python]
                                      veil pca ipso assess recommend; all by default, others keep their figures

`veil`, `pca` and `ipso` protect a table in memory, `assess` measures a release by `pca` with the default set, and
`recommend` races three methods for a minute and checks its choice on all rows. Each run is a process of its own: CPU
seconds of the call (all threads, without compiling and loading), seconds on the clock, and the peak memory of the
process, libraries and data included. Beside `assess` stands a floor, in the same process: every column of both files
in order, and 2,000 originals held against all released records by bare products in single precision. Beside `veil` of
100,000 and 1,000,000 rows stands, in the same run, the fastest peer we know, synthetic-tabular, in an environment of
its own: it draws from a normal copula, and knows neither rules nor domains.
Writes bench/growth.json and prints a table. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).with_name("growth.json")

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
COLUMNS = (10, 30, 100, 300)
ROWS_OF_WIDE = 10_000
METHODS = ("veil", "pca", "ipso")
MOST_ASSESSED = 1_000_000
"""Rows of the largest table that is assessed."""

CANDIDATES, LIMIT = ("veil", "pca", "score_mix"), 0.2
"""What `recommend` chooses from, and a limit on the worst attack that some keep on a sample."""

LIMITS = {("veil", 100_000): 1.5, ("veil", 1_000_000): 12.0, ("assess", 1_000_000): 60.0}
"""CPU seconds of 13 columns on a quiet machine."""

MOST_TIMES_FLOOR = {("assess", 1_000_000): 20.0}
"""CPU seconds over those of the floor, whatever else the machine does."""

PEER = """
import time
import numpy as np, pandas as pd, synthetic_tabular
{amounts}
for rows in (5_000, {rows}):
    table = pd.DataFrame(amounts(rows, 13))
    cpu = time.process_time()
    synthetic_tabular.generate(table, n=rows, random_state=1)
print(time.process_time() - cpu)
"""

SECONDS = 900.0
"""A run that takes longer is ended, and noted as such."""


def amounts(rows: int, columns: int) -> np.ndarray:
    """Lognormal, with correlations of 0.6 between the logarithms; made column by column, without a peak of its own."""
    rng = np.random.default_rng(1)
    shared, data = np.sqrt(0.6) * rng.standard_normal(rows), np.empty((rows, columns))
    for j in range(columns):
        data[:, j] = np.exp(0.8 * (shared + np.sqrt(0.4) * rng.standard_normal(rows)))
    return data


def used() -> float:
    """CPU seconds of this process and of those it has started."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def measure(what: str, rows: int, columns: int) -> dict[str, float]:
    import microveil as mv

    def run(data: np.ndarray, release: np.ndarray) -> Any:
        if what in METHODS:
            return mv.protect(data, what, seed=1)
        if what == "recommend":
            return mv.recommend(data, methods=list(CANDIDATES), limit=LIMIT, seed=1)
        return mv.assess(data, release, seed=1)

    def both(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        data = amounts(rows, columns)
        return data, mv.protect(data, "pca", seed=1).data if what == "assess" else data

    run(*both(40_000 if what in METHODS else 500, min(columns, 13)))
    data = both(rows, columns)
    cpu, wall = used(), time.perf_counter()
    run(*data)
    taken = {"cpu_s": used() - cpu, "wall_s": time.perf_counter() - wall}
    taken["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    if what == "assess":
        cpu = used()
        with threadpool_limits(limits=1):  # threads that wait for each other use CPU time, too
            floor(*data)
        taken["times_floor"] = taken["cpu_s"] / (used() - cpu)
        taken["peak_over_input"] = taken["peak_gb"] * 1e9 / (2 * data[0].nbytes)
    return taken


def floor(data: np.ndarray, release: np.ndarray) -> None:
    """What no assessment can do without; see above."""
    for table in (data, release):
        for column in table.T:
            np.sort(column)
    mean, sd = data.mean(axis=0), data.std(axis=0)
    records = np.empty((len(release), release.shape[1] + 1), np.float32)
    records[:, :-1] = (release - mean) / sd
    records[:, -1] = np.square(records[:, :-1]).sum(axis=1)
    some = np.random.default_rng(1).choice(len(data), min(2_000, len(data)), replace=False)
    queries = np.ones((some.size, records.shape[1]), np.float32)
    queries[:, :-1] = -2 * (data[some] - mean) / sd
    least = np.full(some.size, np.inf, np.float32)
    for start in range(0, len(records), 2_048):
        for part in (slice(first, first + 256) for first in range(0, some.size, 256)):  # which stay in the cache
            products = records[start : start + 2_048] @ queries[part].T
            np.minimum(least[part], products.min(axis=0), out=least[part])


def in_own_process(what: str, rows: int, columns: int) -> dict[str, Any]:
    size = {"what": what, "rows": rows, "columns": columns}
    command = [sys.executable, __file__, "--one", what, str(rows), str(columns)]
    try:
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return size | {"cpu_s": None}
    return size | json.loads(found.stdout.splitlines()[-1])


def by_peer(python: str, rows: int) -> float:
    """CPU seconds of the peer for so many rows of 13 amounts."""
    code = PEER.format(amounts=inspect.getsource(amounts), rows=rows)
    alone = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")  # threads that wait use CPU time, too
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, env=os.environ | alone)
    return float(found.stdout)


def main(asked: list[str], peer: str | None) -> int:
    names = [*METHODS, "assess", "recommend"]
    old = json.loads(RESULTS.read_text(encoding="utf-8"))["cases"] if RESULTS.exists() else []
    cases = {(case["what"], case["rows"], case["columns"]): case for case in old}
    for what in asked or names:
        sizes = [(rows, 13) for rows in ROWS if what in METHODS or rows <= MOST_ASSESSED]
        sizes += [(ROWS_OF_WIDE, columns) for columns in COLUMNS]
        sizes = [(MOST_ASSESSED, 13)] if what == "recommend" else sizes
        for rows, columns in sizes:
            case = cases[what, rows, columns] = in_own_process(what, rows, columns)
            figures = (
                f"{case['cpu_s']:8.2f} CPU s {case['wall_s']:8.2f} s {case['peak_gb']:6.2f} GB"
                if case["cpu_s"] is not None
                else f"not done in {SECONDS:.0f} s"
            )
            if peer and what == "veil" and (what, rows) in LIMITS and columns == 13:
                case["times_peer"] = case["cpu_s"] / by_peer(peer, rows)
                figures += f" {case['times_peer']:6.2f} times the peer"
            print(f"{what:10} {rows:>11,} x{columns:>4} {figures}", flush=True)
            about = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
            every = sorted(cases.values(), key=lambda c: (names.index(c["what"]), c["columns"] != 13, c["rows"]))
            RESULTS.write_text(json.dumps(about | {"cases": every}, indent=2) + "\n", encoding="utf-8")
    broken = [
        f"{what} of {rows:,} x 13: {cases[what, rows, 13]['cpu_s']:.1f} CPU seconds, more than {most:.1f}"
        for (what, rows), most in LIMITS.items()
        if (what, rows, 13) in cases and not (cases[what, rows, 13]["cpu_s"] or np.inf) <= most
    ]
    broken += [
        f"{what} of {rows:,} x 13: {cases[what, rows, 13]['times_floor']:.1f} times the floor, more than {most:.0f}"
        for (what, rows), most in MOST_TIMES_FLOOR.items()
        if cases.get((what, rows, 13), {}).get("times_floor", 0.0) > most
    ]
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("what", nargs="*")
        parser.add_argument("--peer", help="the Python of an environment with synthetic-tabular")
        given = parser.parse_args()
        sys.exit(main(given.what, given.peer))
