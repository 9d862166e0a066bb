"""What finding kinds and relations of columns costs, of a table of 1,000,000 rows and 20 columns of many kinds.

10 amounts, 5 columns of labels, 2 of dates, an identifier and 2 of codes; beside it, rows of the same in units of four.
Writes bench/kinds.json. Times are CPU seconds; those of the searches are taken inside the calls that make them.

Exit code 1 if the searches more than double `describe`, or add more than a fifth to `protect`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import microveil as mv

RESULTS = Path(__file__).with_name("kinds.json")
ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
MOST = {"describe": 1.0, "protect": 0.2}
"""What the searches may take, as a share of the rest."""

SEARCHES = {
    "describe": [("microveil.intake.describe", "find_kinds"), ("microveil.intake.describe", "find_relations")],
    "protect": [
        ("microveil.intake.treatment", "find_kinds"),
        ("microveil.intake.intake", "rules_of_labels"),
        ("microveil.protection.in_memory", "computed_columns"),
        ("microveil.protection.in_memory", "check_labels_not_derivable"),
        ("microveil.protection.building", "rules_of_labels"),
        ("microveil.protection.in_memory", "can_be_unit"),
    ],
}


def make_data(rows: int, *, units: bool) -> pd.DataFrame:
    """Amounts that share a factor, labels, days, an identifier and codes."""
    rng = np.random.default_rng(1)
    factor = rng.normal(size=rows)
    data: dict[str, Any] = {
        f"amount_{j}": np.exp(7 + 0.5 * factor + rng.normal(size=rows) / 2).round(2) for j in range(10)
    }
    data |= {f"label_{j}": rng.choice([f"level {k}" for k in range(n)], rows) for j, n in enumerate((2, 3, 8, 20, 30))}
    first = pd.Timestamp("2010-01-01")
    data |= {f"day_{j}": first + pd.to_timedelta(rng.integers(0, 4_000, rows), unit="D") for j in range(2)}
    data["household_id" if units else "person_id"] = [f"P{number // (4 if units else 1):08d}" for number in range(rows)]
    data |= {"region_code": rng.integers(1, 17, rows), "sector_code": rng.integers(1, 40, rows)}
    frame = pd.DataFrame(data)
    if units:
        own = ["amount_0", "amount_1", "label_2", "day_0"]
        frame[own] = frame[own].groupby(frame["household_id"]).transform("first")
    return frame


@contextmanager
def timed(places: list[tuple[str, str]]) -> Iterator[dict[str, float]]:
    """The seconds that some functions take, by their names, where they are called by these modules."""
    spent: dict[str, float] = {}
    kept = [(import_module(module), name) for module, name in places]
    originals = [getattr(module, name) for module, name in kept]

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.process_time() - start

        return call

    try:
        for (module, name), function in zip(kept, originals, strict=True):
            setattr(module, name, watched(name, function))
        yield spent
    finally:
        for (module, name), function in zip(kept, originals, strict=True):
            setattr(module, name, function)


def main() -> int:
    """Measure, print, write."""
    warnings.simplefilter("ignore")
    small = make_data(2_000, units=False)
    mv.describe(small)
    mv.protect(small, seed=1)  # so that nothing is loaded or compiled later
    cases, over = [], False
    for what in ("describe", "protect"):
        for units in (False, True):
            data = make_data(ROWS, units=units)
            with timed(SEARCHES[what]) as spent:
                start = time.process_time()
                _ = mv.describe(data) if what == "describe" else mv.protect(data, seed=1)
                whole = time.process_time() - start
            share = sum(spent.values()) / (whole - sum(spent.values()))
            over |= share > MOST[what]
            steps = {name: round(seconds, 2) for name, seconds in spent.items()}
            cases.append({"what": what, "units": units, "cpu_s": round(whole, 2), "share": round(share, 3), **steps})
            print(json.dumps(cases[-1]), flush=True)
    about = {"rows": ROWS, "cores": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}
    RESULTS.write_text(json.dumps({**about, "limits": MOST, "cases": cases}, indent=2) + "\n")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
