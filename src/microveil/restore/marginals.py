"""Marginals: each released column gets the values it had, in the order the release has put them.

What the perturbation says is which record is small and which is large; the values come from the original column,
so sign, bounds, whole numbers, zeros and heaps survive. `original` gives back exactly the old values. `smoothed`
draws them anew, a window of neighbours at a time (`restore/smoothing`).
`stratified` draws one value from each n-th of the distribution (Latin hypercube sampling).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from microveil.core.arrays import Array, Index, Mask
from microveil.core.parameters import Step
from microveil.core.rng import Stream
from microveil.core.sorted_columns import ascending, ascending_order
from microveil.core.threads import in_threads
from microveil.restore.smoothing import smoothed

Kind = Literal["free", "original", "smoothed", "stratified"]

GROUPS = 4
"""A column of fewer values than this many tail groups has no middle, and is left free instead of smoothed."""


class Marginals(Step):
    """Give each column back its own distribution: exactly, or with the extremes blurred.

    Values are assigned by rank (reverse mapping), then exchanged between records until the moments and the rank
    correlations of the original come back.
    """

    marginals: Kind = Field(
        default="free",
        description="the values of a released column: free, its original ones in another order, smoothed ones "
        "(drawn anew among their neighbours), or drawn from each n-th of its distribution",
    )
    exchange: bool = Field(
        default=True, description="then exchange values between records until correlations and rank correlations return"
    )
    tail_group: int = Field(
        default=5, ge=2, description="how many records must share a value for it to be released as it is when smoothed"
    )
    window: int = Field(
        default=20,
        ge=4,
        description="how many neighbours, on average, are drawn anew together when smoothed: more hide more, and "
        "blur more",
    )

    @model_validator(mode="after")
    def _what_goes_with_what(self) -> Self:
        for name in ("tail_group", "window"):
            if self.marginals != "smoothed" and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} goes with marginals='smoothed' only")
        if self.marginals == "free" and not self.exchange:
            raise ValueError("exchange goes with marginals other than 'free' only")
        return self

    def smooths(self, count: int) -> bool:
        """Are there enough values to smooth?"""
        return count >= GROUPS * self.tail_group

    def of(
        self,
        column: Array,
        present: Mask | None,
        stream: Stream,
        made: Callable[[Callable[[], Array]], Array] = lambda make: make(),
    ) -> Marginal:
        """The values the released column will have; the cells that are not present have values of their own.

        Args:
            column: the original column, rows.
            present: which of its cells are there, rows; None if all.
            stream: of random numbers.
            made: what gives a column, given how it is made: at once, or whenever it is read.
        """
        if present is None or present.all():
            return Marginal(made(lambda: self._values(ascending(column[:]), stream)))
        values = made(lambda: self._values(ascending(column[:][present]), stream))
        return Marginal(values, made(lambda: ascending(column[:][~present])), present)

    def _values(self, values: Array, stream: Stream) -> Array:
        if self.marginals == "smoothed":
            return smoothed(values, self.window, self.tail_group, stream)
        return stratified(values, stream) if self.marginals == "stratified" else values


@dataclass(frozen=True, repr=False)
class Marginal:
    """The values of a released column in ascending order, and those of its missing cells, which nobody will see."""

    values: Array
    unseen: Array | None = None
    present: Mask | None = None

    @classmethod
    def of_cells(cls, column: Array, present: Mask | None) -> Marginal:
        """The values that a column has, all of them where no cell is missing."""
        if present is None or present.all():
            return cls(np.sort(column))
        return cls(np.sort(column[present]), np.sort(column[~present]), present)

    def of_rows(self, rows: Index) -> Marginal:
        """The same for rows in another order."""
        return self if self.present is None else replace(self, present=self.present[rows])

    def put_aside(self, keep: Callable[[Array], Array]) -> Marginal:
        """The same, with values that are made once, now, and are where `keep` puts them."""
        unseen = None if self.unseen is None else keep(self.unseen[:])
        return replace(self, values=keep(self.values[:]), unseen=unseen)

    def in_order_of(self, column: NDArray[np.floating[Any]]) -> Array:
        """The values in the order that another column has: its smallest cell gets the smallest value, and so on."""
        out = column.astype(np.float64)
        del column  # nobody else may hold it
        self.put_in_order_of(out)
        return out

    def put_in_order_of(self, column: Array) -> None:
        """The same, in the place of the other column."""
        cells = column[:]
        if self.present is None or self.unseen is None:
            cells[ascending_order(cells)] = self.values[:]
        else:
            for there, values in ((self.present, self.values), (~self.present, self.unseen)):
                rows = np.flatnonzero(there)
                cells[rows[ascending_order(cells[rows])]] = values[:]
        if not isinstance(column, np.ndarray):  # it is on a disk
            column[:] = cells


def stratified(values: Array, stream: Stream) -> Array:
    """A value from a random place in each n-th of the distribution, which runs straight from value to value."""
    levels = (np.arange(values.size) + stream.uniform(values.size)) / values.size
    return np.quantile(values, levels)


def mapped(columns: list[Array], marginals: Sequence[Marginal]) -> list[Array]:
    """The values of the marginals in the order of the columns, in their place."""
    jobs = [partial(m.put_in_order_of, c) for m, c in zip(marginals, columns, strict=True)]
    in_threads(jobs, small=not _held(columns))
    return columns


def _held(columns: Sequence[Array]) -> bool:
    """Are the columns in memory? If not, there is room for one at a time."""
    return all(isinstance(column, np.ndarray) for column in columns)
