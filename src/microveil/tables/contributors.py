"""Who contributes to a published cell, and how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.tables.hierarchy import Numbers
from microveil.tables.table import Contributions, Table, by_contributor


@dataclass(frozen=True, repr=False)
class Largest:
    """Of each published cell: contributors, the sizes of the largest contributions, and the size of all of them.

    The size of a contribution is what one contributor gave to the cell in all, without its sign: of two negative
    amounts or of one of either sign, the larger one still is the one that others could estimate.
    """

    contributors: Numbers
    sizes: Array
    in_all: Array


def contributions_of(table: Table, why: str) -> Contributions:
    """The contributions of a table that has them."""
    if table.contributions is None:
        raise ParameterError(
            f"{why} must know who contributed, which a table made from cells does not say",
            "make the table from records, and say who contributed (contributors, --contributors)",
        )
    return table.contributions


def largest(table: Table, most: int, why: str) -> Largest:
    """The largest contributions to each published cell."""
    given = contributions_of(table, why)
    contributors = np.zeros(table.count, dtype=np.int64)
    sizes = np.zeros((table.count, most))
    in_all = np.zeros(table.count)
    for inner, rows in table.lifts():
        row_of = np.full(table.inner_count, -1, dtype=np.int64)
        row_of[inner] = rows
        part = row_of[given.cells] >= 0
        joined = by_contributor(row_of[given.cells[part]], given.who[part], given.amounts[part])
        cells, amounts = joined.cells, np.abs(joined.amounts)
        order = np.lexsort((-amounts, cells))
        cells, amounts = cells[order], amounts[order]
        rank = np.arange(cells.size) - np.searchsorted(cells, cells)
        contributors += np.bincount(cells, minlength=table.count)
        in_all += np.bincount(cells, amounts, minlength=table.count)
        top = rank < most
        sizes[cells[top], rank[top]] = amounts[top]
    return Largest(contributors, sizes, in_all)


def sole_contributors(table: Table) -> Numbers:
    """For each inner cell the contributor who is alone in it, -1 where there are none or several.

    Where only their number is known, somebody else is alone in each cell.
    """
    sole = np.full(table.inner_count, -1, dtype=np.int64)
    if table.contributions is None:
        sole[table.inner_counts == 1] = np.flatnonzero(table.inner_counts == 1)
    else:
        cells, first, times = np.unique(table.contributions.cells, return_index=True, return_counts=True)
        sole[cells[times == 1]] = table.contributions.who[first[times == 1]]
    return sole
