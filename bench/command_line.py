"""Time of `microveil protect` with both reports, compared with an earlier version: the bundled survey, start to end.

Writes bench/command_line.json and prints two lines. Both versions run in turn, in processes of their own, with the
libraries of this environment; the figures are medians of their CPU seconds, which tell more than the clock on a machine
that others use too. The earlier version is taken from the history, or from a checkout that is named:

    python bench/command_line.py [CHECKOUT]

Reports of this version have measures that the earlier one did not take. Their time is that of an assessment with all
measures of the report, less that of one with those that both versions have; the second ratio is without it.

Exit code 1 if the limit is exceeded.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("command_line.json")
HERE = Path(__file__).resolve().parent.parent
EARLIER = "6da75bf"

RUNS = 7
MOST = 0.7
"""CPU seconds of this version over those of the earlier one."""


def protect(checkout: Path) -> tuple[float, set[str]]:
    """CPU seconds of one run by the version in a checkout, and the measures in its report."""
    source = checkout / "src"
    survey = source / "microveil" / "examples" / "business_survey.csv"
    with tempfile.TemporaryDirectory() as folder:
        output, report, public = (Path(folder) / name for name in ("released.csv", "internal.html", "public.html"))
        words = ["protect", survey, "-o", output, "--report", report, "--public-report", public, "--seed", "1"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "microveil", *words],
            check=True,
            env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""},  # as an installed version
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        measured = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["measures"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, set(measured)


def seconds_of_measures(ids: set[str], common: set[str]) -> float:
    """CPU seconds that the measures take which are not common to both versions."""
    import polars as pl

    import microveil as mv
    from microveil.assess import assess_release

    release = mv.protect(pl.read_csv(mv.example_file()), seed=1)
    taken: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(RUNS):
        for everything in (True, False):
            start = time.process_time()
            assess_release(release, measures=sorted(ids if everything else common))
            taken[everything].append(time.process_time() - start)
    return statistics.median(taken[True]) - statistics.median(taken[False])


def compared(other: Path) -> dict[str, Any]:
    """Medians of both versions; a first run of each, which compiles what is kept, is not counted."""
    checkouts = {"this": HERE, "earlier": other}
    measures = {name: protect(checkout)[1] for name, checkout in checkouts.items()}
    taken: dict[str, list[float]] = {name: [] for name in checkouts}
    for _ in range(RUNS):
        for name, checkout in checkouts.items():
            taken[name].append(protect(checkout)[0])
    this, earlier = (statistics.median(taken[name]) for name in checkouts)
    new = measures["this"] - measures["earlier"]
    added = seconds_of_measures(measures["this"], measures["this"] & measures["earlier"])
    return {
        "runs": RUNS,
        "limit": MOST,
        "cpu_s": this,
        "earlier": EARLIER,
        "earlier_cpu_s": earlier,
        "ratio": this / earlier,
        "new_measures": sorted(new),
        "new_measures_cpu_s": added,
        "ratio_without_them": (this - added) / earlier,
        "all_cpu_s": taken,
    }


def main() -> int:
    if len(sys.argv) > 1:
        results = compared(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as folder:
            packed = subprocess.run(
                ["git", "archive", EARLIER, "src"], check=True, cwd=HERE, capture_output=True
            ).stdout
            subprocess.run(["tar", "-x", "-C", folder], check=True, input=packed)
            results = compared(Path(folder))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(
        f"microveil protect with two reports: {results['cpu_s']:.1f} CPU s, {results['earlier']} "
        f"{results['earlier_cpu_s']:.1f}: {results['ratio']:.2f} of it (limit {MOST})\n"
        f"{', '.join(results['new_measures'])} are new and take {results['new_measures_cpu_s']:.1f} s: "
        f"{results['ratio_without_them']:.2f} without them"
    )
    held = results["ratio"] <= MOST
    print("the limit holds" if held else "the limit is exceeded")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
