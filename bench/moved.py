"""What moved: the figures of bench/*.json beside those that are committed, if they differ by more than a tenth.

    python bench/moved.py [file ...]        all by default

`make bench` ends with it. Lists are compared case by case, as long as a case has the same words and sizes. Seconds
that differ by less than HARDLY do not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TENTH = 0.1
HARDLY = 0.02

SIZES = ("rows", "columns", "cells", "public", "repeats", "cores", "limit", "workers")
"""Whole numbers that say what was measured, not what came of it."""


def figures(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number of a file, with the way to it: names, and of the cases of a list their words and sizes.

    Cases that these do not tell apart are numbered.
    """
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in SIZES:
                yield from figures(value, (*path, name))
    elif isinstance(found, list):
        seen: Counter[str] = Counter()
        for number, value in enumerate(found):
            words = value if isinstance(value, dict) else {}
            known = [str(v) for name, v in words.items() if isinstance(v, str) or name in SIZES]
            case = " ".join(known) or str(number)
            seen[case] += 1
            yield from figures(value, (*path, case if seen[case] == 1 else f"{case} ({seen[case]})"))
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield path, float(found)


def moved(old: Any, new: Any) -> list[str]:
    """The figures that differ by more than a tenth, the most first."""
    before, lines = dict(figures(old)), []
    for path, now in figures(new):
        was = before.get(path)
        if was is None or abs(now - was) <= TENTH * abs(was):
            continue
        if path[-1].endswith("_s") and abs(now - was) < HARDLY:
            continue
        ratio = now / was if was else float("inf")
        lines.append((max(ratio, 1 / ratio if ratio else float("inf")), f"{' / '.join(path)}: {was:.3g} -> {now:.3g}"))
    return [line for _, line in sorted(lines, key=lambda entry: -entry[0])]


def committed(path: Path) -> Any:
    """The file as it is in the last commit; None if there is none."""
    found = subprocess.run(["git", "show", f"HEAD:bench/{path.name}"], cwd=HERE, capture_output=True, text=True)
    return json.loads(found.stdout) if found.returncode == 0 else None


def main(names: list[str]) -> None:
    for path in [HERE / name for name in names] or sorted(HERE.glob("*.json")):
        old = committed(path)
        lines = [] if old is None else moved(old, json.loads(path.read_text(encoding="utf-8")))
        if lines:
            print(f"{path.name}, by more than a tenth:", *lines, sep="\n  ")
    print("All other figures are within a tenth of the committed ones.")


if __name__ == "__main__":
    main(sys.argv[1:])
