"""Primary rules: which cells must not be shown for their own sake; and who contributes to a cell, and how much."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field, ValidationError

from microveil.core.arrays import Array, Mask
from microveil.core.errors import ParameterError
from microveil.core.parameters import Step, parameters_of, plain_reason
from microveil.core.tolerances import SUM_ROUND_OFF
from microveil.tables.hierarchy import Numbers
from microveil.tables.table import Table, by_contributor


class Rule(Step):
    """Says which published cells are sensitive. Its parameters may be given by place, as in SmallCount(4)."""

    def __init__(self, *values: Any, **named: Any) -> None:
        names = list(type(self).model_fields)
        kind = type(self).__name__
        if len(values) > len(names):
            raise ParameterError(f"{kind} has {len(names)} parameters, {len(values)} were given", ", ".join(names))
        given = dict(zip(names, values, strict=False)) | named
        try:
            super().__init__(**given)
            return
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
        # Outside the handler, so that the report of this error does not drag pydantic's along.
        name = str(first["loc"][0])
        allowed = {parameter.name: parameter.allowed for parameter in parameters_of(type(self))}
        reason = plain_reason(first)
        hint = f"allowed: {allowed[name]}" if name in allowed else f"there are: {', '.join(names)}"
        raise ParameterError(f"{kind}: {name}: {reason}", hint)

    @abstractmethod
    def primary(self, table: Table) -> Mask:
        """Which published cells are sensitive."""


class SmallCount(Rule):
    """Hide counts below a limit, zero excepted; in a table of amounts, cells with fewer records than that."""

    limit: float = Field(gt=0, description="the smallest count that may be shown")

    def primary(self, table: Table) -> Mask:
        """Counts above zero and below the limit."""
        counts = table.published_counts
        return (counts > 0) & (counts < self.limit)


class FewContributors(Rule):
    """Hide cells that fewer than some number of contributors contribute to."""

    least: int = Field(ge=2, description="contributors that a cell must have to be shown")

    def primary(self, table: Table) -> Mask:
        """Cells with at least one contributor, but too few."""
        contributors = largest(table, 1, "FewContributors").contributors
        return (contributors > 0) & (contributors < self.least)


class Dominance(Rule):
    """Hide cells of which the n largest contributors have k percent or more (Hundepool et al. 2012, section 4.2)."""

    n: int = Field(ge=1, description="contributors that are looked at together")
    k: float = Field(gt=0, le=100, description="percent of the cell that they may stay below")

    def primary(self, table: Table) -> Mask:
        """Cells in which the largest contributions have too large a share."""
        found = largest(table, self.n, "Dominance")
        least = self.k / 100 * found.in_all * (1 - SUM_ROUND_OFF)  # exactly k percent counts
        dominated: Mask = (found.in_all > 0) & (found.sizes.sum(axis=1) >= least)
        return dominated


class PPercent(Rule):
    """Hide cells whose second largest contributor knows the largest to p percent (Hundepool et al. 2012, 4.2)."""

    p: float = Field(gt=0, description="percent of the largest contribution that must stay uncertain")

    def primary(self, table: Table) -> Mask:
        """Cells in which all but the two largest contributions come to less than p percent of the largest."""
        found = largest(table, 2, "PPercent")
        rest = found.in_all - found.sizes.sum(axis=1)
        close: Mask = (found.in_all > 0) & (rest < self.p / 100 * found.sizes[:, 0])
        return close


@dataclass(frozen=True, repr=False)
class Largest:
    """Of each published cell: contributors, the sizes of the largest contributions, and the size of all of them.

    The size of a contribution is what one contributor gave to the cell in all, without its sign: of two negative
    amounts or of one of either sign, the larger one still is the one that others could estimate.
    """

    contributors: Numbers
    sizes: Array
    in_all: Array


def largest(table: Table, most: int, why: str) -> Largest:
    """The largest contributions to each published cell."""
    given = table.contributions
    if given is None:
        raise ParameterError(
            f"{why} must know who contributed, which a table made from cells does not say",
            "make the table from records, and say who contributed (contributors, --contributors)",
        )
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
