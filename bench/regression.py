"""Speed and memory of `ipso` beside the drawing of its normal deviates, in the same run.

Writes bench/regression.json and prints a table. CPU seconds of the whole process; runs alternate between ours and the
floor, and the ratio is the median over the pairs. Memory is the peak of a process of its own beyond the input and what
the process held before.

Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from run import timed

RESULTS = Path(__file__).with_name("regression.json")

ROWS, COLUMNS, PAIRS = 1_000_000, 10, 9

# public columns, largest ratio to the drawing of the normals, what RegSDC takes in that unit
CASES = [(0, 5.0, "25"), (10, 9.0, "45")]
MOST_MEMORY = 400e6
"""Bytes beyond the input; RegSDC takes 1.3 to 1.5 GB."""


def make_data(rows: int, public: int) -> np.ndarray:
    """Correlated confidential columns that follow the public ones beside them."""
    data = np.empty((rows, COLUMNS + public))
    np.random.default_rng(1).standard_normal(out=data)
    data[:, 1:COLUMNS] += data[:, :1]
    for column in range(public):
        data[:, column] += 0.5 * data[:, COLUMNS + column]
    data += 100.0
    return data


def floor(data: np.ndarray, seed: int) -> np.ndarray:
    """The drawing of the normal deviates, and nothing else."""
    return np.random.default_rng(seed).standard_normal((len(data), COLUMNS))


def ipso(data: np.ndarray, seed: int) -> np.ndarray:
    import microveil as mv

    public = list(range(COLUMNS, data.shape[1])) or None
    return mv.protect(data, "ipso", confidential=list(range(COLUMNS)), public=public, seed=seed).data


def measure(public: int) -> dict[str, float]:
    """The ratio of CPU times, after a first run of each."""
    data = make_data(ROWS, public)
    # Memory that nobody has touched yet costs its first user several times the work; both sides get it touched.
    np.empty(ROWS * 150).fill(0)
    for run in (floor, ipso):
        timed(run, data, 0)
    pairs = [(timed(floor, data, pair)[0], timed(ipso, data, pair)[0]) for pair in range(PAIRS)]
    return {
        "floor_cpu_s": statistics.median(base for base, _ in pairs),
        "cpu_s": statistics.median(mine for _, mine in pairs),
        "cpu_ratio": statistics.median(mine / base for base, mine in pairs),
    }


def peak(public: int) -> dict[str, float]:
    """Bytes beyond the input, in a process that does nothing else."""
    ipso(make_data(10_000, public), 0)
    data = make_data(ROWS, public)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ipso(data, 1)
    return {"beyond_input_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / 1e6}


def in_process(*arguments: object) -> Any:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps({"times": measure, "memory": peak}[sys.argv[1]](int(sys.argv[2]))))
        return 0
    results, broken = [], []
    for public, limit, theirs in CASES:
        case = {"rows": ROWS, "columns": COLUMNS, "public": public, "limit": limit, "regsdc": theirs}
        case |= in_process("times", public) | in_process("memory", public)
        results.append(case)
        print(
            f"ipso {ROWS:,} x {COLUMNS}, {public:2} public: {case['cpu_s']:.3f} CPU s, {case['cpu_ratio']:.2f} x the "
            f"drawing of its normals (at most {limit:.0f}; RegSDC {theirs}), {case['beyond_input_mb']:.0f} MB more"
        )
        if case["cpu_ratio"] > limit:
            broken.append(f"{public} public columns: slower than {limit} x the floor")
        if case["beyond_input_mb"] > MOST_MEMORY / 1e6:
            broken.append(f"{public} public columns: more than {MOST_MEMORY / 1e6:.0f} MB beyond the input")
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
