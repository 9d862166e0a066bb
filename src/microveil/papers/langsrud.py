"""Langsrud (2019), section 7: the frequency table, decimals in the place of its suppressed cells, and how far they lie.

Fitted values are no draw and must be found again to the last printed digit. Of the printed draws only what is the same
for every draw can be: sums, the sum of squares, the length of the residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from microveil import tables
from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.runs import collect
from microveil.papers.sources import PRINTED

SIDE = 4
"""Rows and columns of the table."""


def printed_cells() -> Any:
    """Table 1, how its cells are suppressed, and what Tables 2 and 3 print for them: a polars frame of 16 rows."""
    from polars import read_csv

    return read_csv(PRINTED / "langsrud_cells.csv")


def paper_pattern() -> tables.Suppressed:
    """Table 1 as the paper hides it."""
    cells = printed_cells()
    hidden = {
        kind: list(cells.filter(cells["suppressed"] == kind).select("row", "col").iter_rows())
        for kind in ("primary", "secondary")
    }
    table = tables.Table(cells.select("row", "col", "n"), ["row", "col"])
    return tables.as_suppressed(table, hidden["secondary"], hidden["primary"])


def suppressed_cells(options: RunOptions) -> Found:
    """Totals, and how many cells have to be suppressed (Table 1)."""
    options.progress("suppressing", 0.5)
    pattern = paper_pattern()
    ours = tables.suppress(pattern.table, tables.SmallCount(limit=4))
    labels = zip(*pattern.table.labels.values(), strict=True)
    figures: dict[Place, float] = {
        ("totals", col if row == "Total" else row): value
        for (row, col), value in zip(labels, pattern.table.published_values.tolist(), strict=True)
        if "Total" in (row, col)
    }
    figures["totals", "all"] = figures["totals", "Total"]
    figures["suppressed cells", "primary"] = float(ours.primary.sum())
    figures["suppressed cells", "secondary"] = float(ours.suppressed.sum() - ours.primary.sum())
    figures["the paper's pattern", "exactly determined"] = tables.intervals(pattern).count("exactly determined")
    return Found(collect([figures]))


def filled_cells(options: RunOptions, *, cells: Sequence[tuple[int, int]]) -> Found:
    """Fitted values of these cells (row and column, from 1), and what all draws share (Table 2)."""
    pattern = paper_pattern()
    fitted: dict[Place, float] = {}
    for column, modulo in (("Ŷ", None), ("Ŷ mod 4", 4.0), ("Ŷ mod 10", 10.0)):
        inner = _inner(tables.fitted(pattern, modulo))
        fitted |= {(f"({i},{j})", column): inner[i - 1, j - 1] for i, j in cells}
    fit = _inner(tables.fitted(pattern))
    drawn = collect(
        {
            ("Y*", "sum of squares of the table"): np.square(inner).sum(),
            ("Y*", "squared length of the residuals"): np.square(inner - fit).sum(),
            ("Y*", "sum of the suppressed cells"): sum(inner[i - 1, j - 1] for i, j in cells),
        }
        for inner in _draws(options, pattern)
    )
    return Found(collect([fitted]) | drawn)


def scaled_residuals(options: RunOptions, *, modulo: float, residual_scale: float) -> Found:
    """Sums of rows and columns, and the length of the residuals, of draws whose residuals are scaled (Table 3)."""
    pattern = paper_pattern()
    fit = _inner(tables.fitted(pattern, modulo))
    return Found(
        collect(
            {
                **{("sums", f"row{i + 1}"): inner[i].sum() for i in range(SIDE)},
                **{("sums", f"col{i + 1}"): inner[:, i].sum() for i in range(SIDE)},
                ("residuals", "length"): float(np.linalg.norm(inner - fit)),
            }
            for inner in _draws(options, pattern, modulo=modulo, residual_scale=residual_scale)
        )
    )


def _inner(filled: tables.Filled) -> Array:
    return filled.inner.reshape(SIDE, SIDE)


def _draws(options: RunOptions, pattern: tables.Suppressed, **fill: Any) -> list[Array]:
    streams = Streams.from_seed(options.seed)
    seeds = (int(streams.stream("langsrud", repeat).generator().integers(2**63)) for repeat in range(options.repeats))
    return [_inner(tables.fill(pattern, seed=seed, **fill)) for seed in seeds]
