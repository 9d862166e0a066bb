"""Speed of microaggregation and rank swapping beside what they cannot do without, in the same run.

MDAV stands beside a compiled search through all records that makes the same groups (checked), and rank swapping beside
the sorting of its columns. Writes bench/maskers.json and prints a table. Times are CPU seconds of the whole process;
runs alternate between ours and the floor, and ratios are medians over the pairs, because a noisy machine slows both.

Exit code 1 if a limit is exceeded, or if the groups differ.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

import microveil as mv
from microveil.perturb.microaggregate import group_means

RESULTS = Path(__file__).with_name("maskers.json")

COLUMNS = 13
GROUP_SIZE = 3
# rows, pairs of runs
MDAV = [(10_000, 5), (50_000, 3)]
MOST_CPU = 4.0
"""CPU seconds for the largest table."""

SDCMICRO = 32.0
"""CPU seconds that sdcMicro was measured at for a table of that size and groups of 3, in another run."""

RANK_SWAP = (1_000_000, 0.05, 3)
"""Rows, window, pairs of runs."""
MOST_SORTING = 6.0
"""Times what sorting the columns takes."""


def make_data(rows: int) -> np.ndarray:
    """Amounts as files have them: lognormal, with correlations of 0.6 between their logarithms."""
    rng = np.random.default_rng(1)
    root = np.linalg.cholesky(0.6 + 0.4 * np.eye(COLUMNS))
    return np.exp(0.8 * rng.standard_normal((rows, COLUMNS)) @ root.T)


@njit
def distances(values, weight, left, point, out):
    for place in range(left):
        out[place] = 0.0
    for j in range(weight.size):
        for place in range(left):
            difference = values[j, place] - point[j]
            out[place] += difference * difference * weight[j]


@njit
def take_nearest(values, rows, left, distance, group_size, numbers, number):
    """Number the nearest records, and close the gaps with the last ones."""
    for _ in range(group_size):
        nearest = np.argmin(distance[:left])
        numbers[rows[nearest]] = number
        left -= 1
        rows[nearest], distance[nearest] = rows[left], distance[left]
        for j in range(values.shape[0]):
            values[j, nearest] = values[j, left]
    return left


@njit
def plain_mdav(values, weight, group_size):
    """MDAV by looking at every record that is left, each time; there are no ties in the data it is for."""
    values = values.copy()
    columns, left = values.shape
    rows, numbers, distance = np.arange(left), np.empty(left, np.int64), np.empty(left)
    point, number = np.empty(columns), 0
    while left >= 2 * group_size:
        groups = 2 if left >= 3 * group_size else 1
        for j in range(columns):
            point[j] = values[j, :left].sum() / left
        distances(values, weight, left, point, distance)
        farthest = values[:, np.argmax(distance[:left])].copy()
        for _ in range(groups):
            point[:] = farthest
            distances(values, weight, left, point, distance)
            farthest = values[:, np.argmax(distance[:left])].copy()
            left = take_nearest(values, rows, left, distance, group_size, numbers, number)
            number += 1
    for place in range(left):
        numbers[rows[place]] = number
    return numbers


def mdav_floor(data: np.ndarray) -> np.ndarray:
    values = np.ascontiguousarray(data.T)
    return group_means(values, plain_mdav(values, 1 / values.var(axis=1), GROUP_SIZE), None).T


def mdav(data: np.ndarray) -> np.ndarray:
    return mv.protect(data, "microaggregate", group_size=GROUP_SIZE).data


def sort_columns(data: np.ndarray) -> list[np.ndarray]:
    return [np.sort(column) for column in data.T]


def rank_swap(data: np.ndarray) -> np.ndarray:
    return mv.protect(data, "rank_swap", rank_window=RANK_SWAP[1], seed=1).data


def cpu_of(run: Callable[[np.ndarray], Any], data: np.ndarray) -> float:
    """CPU seconds of one run. BLAS threads spin for a while after their work: wait until they sleep."""
    time.sleep(0.1)
    start = time.process_time()
    run(data)
    return time.process_time() - start


def beside(
    floor: Callable[[np.ndarray], Any], ours: Callable[[np.ndarray], Any], data: np.ndarray, pairs: int
) -> dict[str, float]:
    times = [(cpu_of(floor, data), cpu_of(ours, data)) for _ in range(pairs)]
    base, own = zip(*times, strict=True)
    return {
        "rows": len(data),
        "floor_cpu_s": statistics.median(base),
        "cpu_s": statistics.median(own),
        "ratio": statistics.median(mine / other for other, mine in times),
    }


def table(results: dict[str, Any]) -> str:
    lines = [f"{'':14} {'rows x columns':>16} {'floor CPU s':>12} {'CPU s':>8} {'ratio':>6} limit"]
    small, large = results["mdav"]
    for name, case, limit in (
        ("MDAV", small, ""),
        ("MDAV", large, f"{MOST_CPU:.0f} CPU s (sdcMicro: {SDCMICRO:.0f})"),
        ("rank swapping", results["rank_swap"], f"{MOST_SORTING:.0f} x the floor"),
    ):
        lines.append(
            f"{name:14} {case['rows']:>11,} x{COLUMNS:>3} {case['floor_cpu_s']:12.3f} {case['cpu_s']:8.3f} "
            f"{case['ratio']:6.2f} {limit}"
        )
    lines.append(
        f"MDAV, five times the rows: {results['growth']:.1f} x the time (floor: {results['floor_growth']:.1f})"
    )
    return "\n".join(lines)


def main() -> int:
    broken = []
    small = make_data(4_000)
    if not np.allclose(mdav(small), mdav_floor(small), rtol=1e-12, atol=0):  # compiles and loads the loops, too
        broken.append("MDAV: the groups are not those of the search through all records")
    cases = [beside(mdav_floor, mdav, make_data(rows), pairs) for rows, pairs in MDAV]
    rows, _, pairs = RANK_SWAP
    data = make_data(rows)
    rank_swap(data[:200_000])
    swapped = beside(sort_columns, rank_swap, data, pairs)
    results = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "columns": COLUMNS,
        "group_size": GROUP_SIZE,
        "mdav": cases,
        "mdav_limit": MOST_CPU,
        "sdcmicro_cpu_s": SDCMICRO,
        "growth": cases[1]["cpu_s"] / cases[0]["cpu_s"],
        "floor_growth": cases[1]["floor_cpu_s"] / cases[0]["floor_cpu_s"],
        "rank_swap": swapped,
        "rank_swap_limit": MOST_SORTING,
    }
    if cases[1]["cpu_s"] > MOST_CPU:
        broken.append(f"MDAV: {cases[1]['cpu_s']:.1f} CPU seconds, more than {MOST_CPU:.0f}")
    if swapped["ratio"] > MOST_SORTING:
        broken.append(
            f"rank swapping: {swapped['ratio']:.1f} x the sorting of its columns, more than {MOST_SORTING:.0f}"
        )
    print(table(results))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {RESULTS}")
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
