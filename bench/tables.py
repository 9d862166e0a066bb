"""Speed and memory of suppression and of its audit: three-way tables of 9,261 and of 97,336 cells, flocking or even.

Small counts flock together where effects of the dimensions multiply, as they do in most tables; the elimination is then
sparse. Where all cells are alike, small ones lie anywhere, and it is one dense system. In the third kind all cells are
alike but for one line of large ones with a sensitive cell inside, so that nearly all cells must be looked at.

Each case runs in a process of its own. Times are CPU seconds of the whole process without the loading of the compiled
loops, memory is its peak. Writes bench/tables.json and prints a table. Exit code 1 if a limit is exceeded.
"""

from __future__ import annotations

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
import polars as pl

from microveil import tables

RESULTS = Path(__file__).with_name("tables.json")

# codes of each of three dimensions, CPU seconds, and what GaussSuppression was measured at on a table of that size
SIZES = {20: (5.0, "45 to 48"), 45: (120.0, "not done after 430")}
MOST_AUDIT_S = {20: 20.0, 45: 300.0}
KINDS = ("flocking", "even", "one line")
MOST_MB = 2000.0
LIMIT = 4


def make_counts(codes: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    shape = (codes, codes, codes)
    if kind == "flocking":
        effects = [np.exp(0.5 * rng.standard_normal(codes)) for _ in range(3)]
        return rng.poisson(8.0 * np.einsum("i,j,k->ijk", *effects))
    if kind == "even":
        return rng.poisson(9.0, shape)
    counts = rng.poisson(14.0, shape)
    counts[0], counts[:, 0] = rng.poisson(1000.0, shape[1:]), rng.poisson(1000.0, shape[1:])
    counts[0, 0, 0] = 1
    return counts


def frame_of(counts: np.ndarray) -> pl.DataFrame:
    places = np.indices(counts.shape).reshape(counts.ndim, -1)
    return pl.DataFrame(dict(zip("abc", places, strict=True)) | {"n": counts.ravel()})


def measure(codes: int, kind: str) -> dict[str, Any]:
    tables.suppress(tables.Table(frame_of(make_counts(3, "flocking")), ["a", "b", "c"]), tables.SmallCount(LIMIT))
    frame = frame_of(make_counts(codes, kind))
    start = time.process_time()
    table = tables.Table(frame, ["a", "b", "c"])
    found = tables.suppress(table, tables.SmallCount(LIMIT))
    suppressed_s = time.process_time() - start
    verdicts = tables.intervals(found)
    return {
        "cells": table.count,
        "kind": kind,
        "cpu_s": suppressed_s,
        "audit_cpu_s": time.process_time() - start - suppressed_s,
        "protected": verdicts.count("protected"),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "primary": int(found.primary.sum()),
        "hidden": int(found.suppressed.sum()),
        "warnings": len(found.warnings),
    }


def in_own_process(codes: int, kind: str) -> dict[str, Any]:
    command = [sys.executable, __file__, str(codes), kind]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    broken, cases = [], []
    print(f"{'cells':>8} {'small counts':13} {'primary':>8} {'hidden':>8} {'CPU s':>7} {'audit':>7} {'MB':>6} limit")
    for codes, (most, theirs) in SIZES.items():
        for kind in KINDS:
            case = in_own_process(codes, kind)
            cases.append(case | {"most_cpu_s": most, "gausssuppression_cpu_s": theirs})
            print(
                f"{case['cells']:>8,} {kind:13} {case['primary']:>8,} {case['hidden']:>8,} {case['cpu_s']:7.2f} "
                f"{case['audit_cpu_s']:7.2f} "
                f"{case['peak_mb']:6.0f} {most:.0f} CPU s, {MOST_MB:.0f} MB (GaussSuppression: {theirs})"
            )
            if case["cpu_s"] > most:
                broken.append(f"{case['cells']:,} cells, {kind}: {case['cpu_s']:.1f} CPU seconds, more than {most:.0f}")
            if case["audit_cpu_s"] > MOST_AUDIT_S[codes]:
                broken.append(f"{case['cells']:,} cells, {kind}: audit in {case['audit_cpu_s']:.1f} CPU seconds")
            if case["peak_mb"] > MOST_MB:
                broken.append(f"{case['cells']:,} cells, {kind}: {case['peak_mb']:.0f} MB, more than {MOST_MB:.0f}")
    about = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps(about | {"cases": cases}, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {RESULTS}")
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(int(sys.argv[1]), sys.argv[2])))
    else:
        sys.exit(main())
