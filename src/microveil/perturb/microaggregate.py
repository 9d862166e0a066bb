"""Microaggregation: neighbours become their mean."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.perturb.base import Column, ColumnPerturbation


class Microaggregate(ColumnPerturbation):
    """Replace each value by the mean of its group of neighbours, in groups of a fixed size.

    Univariate microaggregation by individual ranking: the values are sorted and cut into groups of `group_size`, the
    last of which takes what is left over. The mean comes back exactly, the variance shrinks by what varied within the
    groups, and nothing is random. With survey weights the means of the groups are weighted, so that the weighted mean
    comes back; the groups still count records, as it is records that hide in them.
    """

    reference: ClassVar[str] = "Defays and Nanopoulos (1993)"
    keeps_mean: ClassVar[bool] = True
    keeps_variance: ClassVar[bool] = False
    random: ClassVar[bool] = False

    group_size: Annotated[int, Field(ge=2, description="records of a group, at least")] = 3

    def apply(self, column: Column) -> Array:
        """The mean of the group, for each of its records."""
        order = np.argsort(column.values, kind="stable")
        sizes = group_sizes(order.size, self.group_size)
        starts = np.cumsum(sizes) - sizes
        weights = None if column.weights is None else column.weights[order]
        if weights is None:
            means = np.add.reduceat(column.values[order], starts) / sizes
        else:
            means = np.add.reduceat(weights * column.values[order], starts) / np.add.reduceat(weights, starts)
        new = np.empty_like(column.values)
        new[order] = np.repeat(means, sizes)
        return new

    def retained(self) -> None:
        """It depends on how far apart neighbours are."""

    def check(self, rows: int, columns: int) -> None:  # noqa: ARG002 - a group is of rows
        """There must be rows enough for one group."""
        if self.group_size > rows:
            raise ParameterError(
                f"group_size: {self.group_size} records asked, but there are {rows} rows", "use smaller groups"
            )


def group_sizes(rows: int, group_size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Sizes of the groups: all equal but the last, which takes the remainder."""
    sizes = np.full(rows // group_size, group_size, dtype=np.int64)
    sizes[-1] += rows % group_size
    return sizes
