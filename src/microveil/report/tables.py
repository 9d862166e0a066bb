"""The report of a suppressed table: the table as a picture, and what an intruder can derive of its holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from microveil.report.material import heading, picture
from microveil.report.portrait import Row

MOST_CELLS = 3_000
"""Cells that the picture of a table shows; the twin has all of them."""

MOST_INTERVALS = 60
"""Intervals that are drawn: the narrowest, against the size of their cells."""

NO_AUDIT = "the table was not audited: `microveil table audit` draws it"

FURTHER = (
    "were not followed to their ends: two possible tables, in which such a cell is as low and as high as is shown, are "
    "enough to call it protected, and an intruder may find it possible that it lies further out."
)
"""What is to be known of intervals whose ends nobody searched for."""

SIGNS = {"published": "", "secondary": "○", "primary": "●"}
"""A sign beside the colour, for those who cannot tell colours."""


@dataclass(frozen=True, repr=False)
class ReportedTable:
    """What the report of a suppressed table is made of, as plain data.

    Each cell has its `codes`, `value`, `state` (published, primary or secondary), and where they were asked for the
    decimals in its place (`filled`), its interval (`low`, `high`) and the `verdict` on it. Where `ends_known` is false,
    two possible tables have the cell as low and as high as that, and it may go further.
    """

    dimensions: Sequence[str]
    value: str
    cells: Sequence[Mapping[str, Any]]
    decided: Sequence[str]
    warnings: Sequence[str] = ()


def table_report(table: ReportedTable) -> dict[str, Any]:
    """The report as plain data. It holds what was hidden, so it is an internal one."""
    states = [cell["state"] for cell in table.cells]
    verdicts = [cell["verdict"] for cell in table.cells if "verdict" in cell]
    return {
        "report": heading("internal"),
        "table": {
            "dimensions": list(table.dimensions),
            "value": table.value,
            "decided": list(table.decided),
            "counts": {"cells": len(states), **{name: states.count(name) for name in SIGNS}},
            "ends_not_searched": sum(not cell.get("ends_known", True) for cell in table.cells),
            "further": FURTHER,
            "verdicts": {name: verdicts.count(name) for name in dict.fromkeys(sorted(verdicts))},
            "warnings": list(table.warnings),
            "cells": [dict(cell) for cell in table.cells],
        },
        "grid": _grid(table),
        "plots": {"intervals": _intervals(table)},
    }


def _grid(table: ReportedTable) -> dict[str, Any]:
    """Rows and columns: the last dimension goes across, all others down."""
    if len(table.cells) > MOST_CELLS:
        said = f"the table has {len(table.cells):,} cells, more than the {MOST_CELLS:,} that a picture can show"
        return {"absent": said, "columns": [], "rows": []}
    across = list(dict.fromkeys(cell["codes"][-1] for cell in table.cells))
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for cell in table.cells:
        rows.setdefault(tuple(cell["codes"][:-1]), {})[cell["codes"][-1]] = _shown(cell)
    return {
        "absent": "",
        "columns": across,
        "rows": [
            {"codes": list(codes) or ["all"], "cells": [found.get(code) for code in across]}
            for codes, found in rows.items()
        ],
    }


def _shown(cell: Mapping[str, Any]) -> dict[str, Any]:
    figures = {name: cell.get(name) for name in ("state", "value", "filled", "low", "high")}
    figures["ends_known"] = cell.get("ends_known", True)
    return {"sign": SIGNS[cell["state"]], **figures, "verdict": cell.get("verdict", "")}


def _intervals(table: ReportedTable) -> dict[str, Any]:
    """The intervals of the suppressed cells, narrowest first."""
    audited = [cell for cell in table.cells if "verdict" in cell]
    ends = [cell for cell in audited if max(abs(cell["low"]), abs(cell["high"])) < float("inf")]
    ends.sort(key=lambda cell: (cell["high"] - cell["low"]) / max(1.0, abs(cell["value"])))
    more = sum(not cell.get("ends_known", True) for cell in audited)
    further = f" {more} cells {FURTHER}" if more else ""
    few = f" Shown are the {MOST_INTERVALS} narrowest of {len(audited)}." if len(ends) > MOST_INTERVALS else ""
    return picture(
        "What an intruder can derive",
        "The interval that the published cells leave of each suppressed cell, from the narrowest on. The dot is the "
        f"true value, the cross the decimals in its place, if there are any.{further}{few}",
        (lambda: [_interval(cell) for cell in ends[:MOST_INTERVALS]]) if audited else None,
        NO_AUDIT,
    )


def _interval(cell: Mapping[str, Any]) -> Row:
    return {"cell": " / ".join(cell["codes"])} | {
        name: cell.get(name) for name in ("low", "high", "value", "filled", "verdict")
    }
