"""Speed and memory of `protect(pca, swap all)` beside the same steps in bare numpy, in the same run; and of `veil`.

Writes bench/results.json and prints a table. Times are CPU seconds of the whole process (both cores) and wall
seconds; runs alternate between ours and the floor, and the ratio is the median over the pairs, because a noisy
machine slows both. Memory is the peak of a process of its own that only makes the data and protects them once,
above what it held before, over the size of the input (which is counted).

Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).with_name("results.json")

# rows, columns, pairs of runs, largest ratio to the floor
CASES = [(55_000, 35, 30, 1.0), (1_000_000, 13, 9, 0.7), (10_000_000, 13, 3, 0.4)]
MOST_MEMORY = 3.0

# `veil`: rows, columns, most CPU seconds, most memory over the input
VEIL = (1_000_000, 13, 25.0, 8.0)


def make_data(rows: int, columns: int) -> np.ndarray:
    """Correlated columns, made in place so that making them leaves no peak of its own."""
    data = np.empty((rows, columns))
    np.random.default_rng(1).standard_normal(out=data)
    data[:, 1:] += data[:, :1]
    data += 100.0
    return data


def floor(data: np.ndarray, seed: int) -> np.ndarray:
    """The straightforward numpy version of PCA swapping: what one would write in ten lines."""
    rng = np.random.default_rng(seed)
    mean, sd = data.mean(axis=0), data.std(axis=0)
    standard = (data - mean) / sd
    _, vectors = np.linalg.eigh(standard.T @ standard / len(data))
    scores = standard @ vectors
    for component in range(scores.shape[1]):
        scores[:, component] = rng.permutation(scores[:, component])
    return scores @ vectors.T * sd + mean


def make_skewed_data(rows: int, columns: int) -> np.ndarray:
    """Amounts as files have them: right-skewed, correlated, one column of whole numbers, one with many zeros."""
    rng = np.random.default_rng(1)
    data = np.empty((rows, columns))
    size = rng.standard_normal(rows)
    for j in range(columns):
        data[:, j] = np.exp(0.8 * size + 0.7 * rng.standard_normal(rows))
    data[:, 0] = np.round(10 * data[:, 0])
    data[: rows // 3, 1] = 0.0
    return data


def measure_veil(rows: int, columns: int) -> dict[str, float]:
    """CPU and wall seconds of one run, also in units of the numpy floor of pca, and the peak as above."""
    import microveil

    microveil.protect(make_skewed_data(1_000, columns), "veil", seed=0)
    data = make_skewed_data(rows, columns)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - data.nbytes
    cpu, wall = timed(lambda values, seed: microveil.protect(values, "veil", seed=seed), data, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    with threadpool_limits(1):  # threads of BLAS that wait for each other on a busy machine would count as work
        base, _ = timed(floor, data, 1)
    return {"cpu_s": cpu, "wall_s": wall, "cpu_ratio": cpu / base, "times_input": peak / data.nbytes}


def ours(exact: bool) -> Callable[[np.ndarray, int], object]:
    import microveil

    return lambda data, seed: microveil.protect(data, "pca", exact=exact, seed=seed)


def timed(run: Callable[[np.ndarray, int], object], data: np.ndarray, seed: int) -> tuple[float, float]:
    """CPU and wall seconds of one run. BLAS threads spin for a while after their work: wait until they sleep."""
    time.sleep(0.1)
    wall, cpu = time.perf_counter(), time.process_time()
    result = run(data, seed)
    elapsed = time.process_time() - cpu, time.perf_counter() - wall
    del result
    return elapsed


def measure_times(rows: int, columns: int, pairs: int) -> dict[str, Any]:
    import microveil.core._order_kernels  # noqa: F401 - loops that long columns need are loaded before the clock runs

    data = make_data(rows, columns)
    runs = {"floor": floor, "swap": ours(exact=False), "swap_exact": ours(exact=True)}
    for run in runs.values():
        timed(run, data[:10_000], 0)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for pair in range(pairs):
        # Whoever comes after the floor pays for memory that the floor gave back to the system: take turns.
        for turn in range(len(runs)):
            name = list(runs)[(pair + turn) % len(runs)]
            times[name].append(timed(runs[name], data, pair))
    out: dict[str, Any] = {}
    for name, pairs_of_seconds in times.items():
        cpu, wall = zip(*pairs_of_seconds, strict=True)
        out[name] = {"cpu_s": statistics.median(cpu), "wall_s": statistics.median(wall)}
        for place, kind in enumerate(("cpu", "wall")):
            ratios = [mine[place] / base[place] for mine, base in zip(pairs_of_seconds, times["floor"], strict=True)]
            out[name][f"{kind}_ratio"] = statistics.median(ratios)
    return out


def measure_memory(rows: int, columns: int, which: str) -> dict[str, float]:
    """Peak of this very process over the size of the input."""
    run = floor if which == "floor" else ours(exact=which == "swap_exact")
    import microveil.core._order_kernels  # noqa: F401 - loops that long columns need are loaded before the clock runs

    run(make_data(1_000, columns), 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    data = make_data(rows, columns)
    result = run(data, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    del result
    return {"peak_gb": peak / 1e9, "times_input": peak / data.nbytes}


def in_process(*arguments: object) -> Any:
    """The answer of a fresh process."""
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(results: dict[str, Any]) -> str:
    heading = (
        f"{'rows x columns':>16} {'':11} {'CPU s':>8} {'ratio':>6} {'wall s':>8} {'ratio':>6} {'peak/input':>10} limit"
    )
    lines = [heading]
    for case in results["cases"]:
        for name in ("floor", "swap", "swap_exact"):
            row = case[name]
            limit = f"{case['limit']:.1f}" if name == "swap" else ""
            lines.append(
                f"{case['rows']:>11,} x{case['columns']:>3} {name:11} {row['cpu_s']:8.3f} {row['cpu_ratio']:6.2f} "
                f"{row['wall_s']:8.3f} {row['wall_ratio']:6.2f} {row['times_input']:10.2f} {limit}"
            )
    if "veil" in results:
        veil = results["veil"]
        lines.append(
            f"{veil['rows']:>11,} x{veil['columns']:>3} {'veil':11} {veil['cpu_s']:8.3f} {veil['cpu_ratio']:6.2f} "
            f"{veil['wall_s']:8.3f} {'':6} {veil['times_input']:10.2f} {veil['limit']:.0f} CPU s"
        )
    return "\n".join(lines)


def measured(kind: str, rows: str, columns: str, detail: str = "") -> dict[str, Any]:
    """One measurement, in the process that was started for it."""
    if kind == "veil":
        return measure_veil(int(rows), int(columns))
    if kind == "times":
        return measure_times(int(rows), int(columns), int(detail))
    return measure_memory(int(rows), int(columns), detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**9, help="skip cases with more rows")
    parser.add_argument("what", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what:
        print(json.dumps(measured(*arguments.what)))
        return 0
    results: dict[str, Any] = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cases": [],
    }
    broken = []
    for rows, columns, pairs, limit in CASES:
        if rows > arguments.largest:
            continue
        case = {"rows": rows, "columns": columns, "limit": limit, **in_process("times", rows, columns, pairs)}
        for name in ("floor", "swap", "swap_exact"):
            case[name].update(in_process("memory", rows, columns, name))
        results["cases"].append(case)
        if case["swap"]["cpu_ratio"] > limit or case["swap"]["wall_ratio"] > limit:
            broken.append(f"{rows:,} x {columns}: slower than {limit} x the floor")
        if max(case["swap"]["times_input"], case["swap_exact"]["times_input"]) > MOST_MEMORY:
            broken.append(f"{rows:,} x {columns}: more than {MOST_MEMORY} x the input in memory")
    rows, columns, most_cpu, most_memory = VEIL
    if rows <= arguments.largest:
        veil = in_process("veil", rows, columns)
        results["veil"] = {"rows": rows, "columns": columns, "limit": most_cpu, **veil}
        if veil["cpu_s"] > most_cpu:
            broken.append(f"veil: {veil['cpu_s']:.0f} CPU seconds, more than {most_cpu:.0f}")
        if veil["times_input"] > most_memory:
            broken.append(f"veil: {veil['times_input']:.1f} x the input in memory, more than {most_memory:.0f}")
    print(table(results))
    if arguments.largest == 10**9:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        print(f"wrote {RESULTS}")
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
