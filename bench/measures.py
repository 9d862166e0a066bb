"""Speed of the measures: linkage beside bare searches for the nearest record, a propensity score, a whole assessment.

Writes bench/measures.json and prints a table. CPU seconds of the whole process; ours and the floors take turns, and a
ratio is the median over the rounds. Where a tree fails it takes minutes: there the floors search for some records only,
and their times are scaled up. Memory is the peak of a process of its own beyond the input.

Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from run import timed

RESULTS = Path(__file__).with_name("measures.json")

ROWS, COLUMNS, SOME = 100_000, 13, 2_000

# standard deviation of the logarithms, release, records the floors search for, rounds, largest ratio to the best floor
LINKAGE = [
    (0.5, "near", ROWS, 7, 1.2),
    (1.0, "near", ROWS, 5, 2.0),
    (2.0, "near", SOME, 3, 2.0),
    (0.5, "independent", SOME, 3, 2.0),
    (2.0, "independent", SOME, 3, 2.0),
]
PROPENSITY = {"cpu_s": 20.0, "beyond_input_mb": 1000.0}
ASSESS_ROWS, ASSESS_CPU = 10_000, 19.0  # of which membership and matches in any row take 3.5

Pair = tuple[np.ndarray, np.ndarray]


def make_pair(sd: float, release: str) -> Pair:
    """Lognormal columns and a near release (noise of a tenth of their sd) or a fresh draw, in units of the original."""
    rng = np.random.default_rng(1)
    data = np.exp(sd * rng.standard_normal((ROWS, COLUMNS)))
    other = rng.standard_normal(data.shape)
    released = data + 0.1 * data.std(axis=0) * other if release == "near" else np.exp(sd * other)
    mean, scale = data.mean(axis=0), data.std(axis=0)
    return (data - mean) / scale, (released - mean) / scale


def make_shuffled(rows: int) -> Pair:
    """Correlated lognormal columns, and the same with each column in an order of its own."""
    rng = np.random.default_rng(1)
    mixing = np.eye(COLUMNS) + 0.3 * rng.standard_normal((COLUMNS, COLUMNS))
    data = np.exp(0.5 * rng.standard_normal((rows, COLUMNS)) @ mixing)
    return data, np.column_stack([rng.permutation(column) for column in data.T])


def tree(pair: Pair, seed: int) -> object:  # noqa: ARG001 - one shape
    from scipy.spatial import cKDTree

    return cKDTree(pair[1]).query(pair[0], k=1, workers=2)


def products(pair: Pair, seed: int, *, precision: type) -> object:  # noqa: ARG001 - one shape
    """All distances by matrix products, 100 records at a time: what one would write in ten lines."""
    from threadpoolctl import threadpool_limits

    queries, records = (side.astype(precision) for side in pair)
    lengths, found = np.square(records).sum(axis=1), []
    with threadpool_limits(1):  # threads of BLAS that wait for each other would count as work
        for start in range(0, len(queries), 100):
            squares = queries[start : start + 100] @ records.T
            squares *= -2
            squares += lengths
            found.append(squares.argmin(axis=1))
    return np.concatenate(found)


def tables(pair: Pair) -> Any:
    from microveil.core.table import Matrix

    return tuple(Matrix([column.copy() for column in side.T]) for side in pair)


def measure(name: str) -> Callable[[Any, int], object]:
    from microveil.assessment.measuring import GAUGES

    return lambda both, seed: GAUGES[name](*both, seed=seed)


def scaled(run: Callable[[Pair, int], object], pair: Pair, some: int) -> float:
    """CPU seconds for all records, from those for some; what is done once is not scaled up."""
    whole = timed(run, (pair[0][:: ROWS // some], pair[1]), 0)[0]
    if some == ROWS:
        return whole
    once = timed(run, (pair[0][:1], pair[1]), 0)[0]
    return once + (whole - once) * ROWS / some


def linkage(case: int) -> dict[str, float]:
    """CPU seconds for all records, ours and of each floor, and the ratio to the best floor."""
    sd, release, some, rounds, _ = LINKAGE[case]
    pair = make_pair(sd, release)
    floors = {"tree": tree}
    if some < ROWS:
        floors |= {f"products_{kind.__name__}": partial(products, precision=kind) for kind in (np.float32, np.float64)}
    ours, both = measure("dbrl"), tables(pair)
    first = pair[0][:1_000], pair[1][:1_000]
    for run in floors.values():
        timed(run, first, 0)
    timed(ours, tables(first), 0)
    times: dict[str, list[float]] = {name: [] for name in ("dbrl", *floors)}
    for turn in range(rounds):
        for name, run in floors.items():
            times[name].append(scaled(run, pair, some))
        times["dbrl"].append(timed(ours, both, turn)[0])
    best = [min(seconds) for seconds in zip(*(times[name] for name in floors), strict=True)]
    ratio = statistics.median(mine / floor for mine, floor in zip(times["dbrl"], best, strict=True))
    return {name: statistics.median(seconds) for name, seconds in times.items()} | {"ratio": ratio}


def propensity() -> dict[str, float]:
    """CPU seconds of `propensity_3` and its peak beyond the input, in a process that does nothing else."""
    ours = measure("propensity_3")
    timed(ours, tables(make_shuffled(1_000)), 0)
    both = tables(make_shuffled(ROWS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = timed(ours, both, 0)[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"cpu_s": seconds, "beyond_input_mb": peak * 1024 / 1e6}


def assess() -> dict[str, float]:
    """CPU seconds of `assess` with the default measures and the sanity lines: the first call, and a second one."""
    import microveil as mv

    pair = make_shuffled(ASSESS_ROWS)
    first, second = (timed(lambda pair, seed: mv.assess(*pair, seed=seed), pair, turn)[0] for turn in range(2))
    return {"first_cpu_s": first, "cpu_s": second}


def in_process(*arguments: object) -> Any:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def linkage_line(case: dict[str, Any]) -> str:
    floors = ", ".join(f"{name} {case[name]:.1f}" for name in case if name.startswith(("tree", "products")))
    return (
        f"dbrl {ROWS:,} x {COLUMNS}, lognormal (sd {case['sd']}), {case['release']:11}: {case['dbrl']:5.1f} CPU s, "
        f"{case['ratio']:.2f} x the best floor (at most {case['limit']}): {floors}"
    )


def main() -> int:
    if len(sys.argv) > 1:
        what, *rest = sys.argv[1:]
        print(json.dumps({"linkage": linkage, "propensity": propensity, "assess": assess}[what](*map(int, rest))))
        return 0
    results: dict[str, Any] = {"rows": ROWS, "columns": COLUMNS, "load": os.getloadavg()[0], "linkage": []}
    broken = []
    for number, (sd, release, _, _, limit) in enumerate(LINKAGE):
        case = {"sd": sd, "release": release, "limit": limit} | in_process("linkage", number)
        results["linkage"].append(case)
        print(linkage_line(case), flush=True)
        if case["ratio"] > limit:
            broken.append(f"dbrl, sd {sd}, {release}: slower than {limit} x the best floor")
    results["propensity_3"] = found = {"limits": PROPENSITY} | in_process("propensity")
    print(f"propensity_3 {ROWS:,} x {COLUMNS}: {found['cpu_s']:.1f} CPU s, {found['beyond_input_mb']:.0f} MB more")
    broken += [f"propensity_3: {name} above {most:.0f}" for name, most in PROPENSITY.items() if found[name] > most]
    results["assess"] = found = {"rows": ASSESS_ROWS, "limit": ASSESS_CPU} | in_process("assess")
    print(f"assess {ASSESS_ROWS:,} x {COLUMNS}: {found['cpu_s']:.1f} CPU s (the first time {found['first_cpu_s']:.1f})")
    if max(found["first_cpu_s"], found["cpu_s"]) > ASSESS_CPU:
        broken.append(f"assess: more than {ASSESS_CPU:.0f} CPU seconds")
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
