"""The scale of a column: declared bounds cut into numbered cells, so that all that follows counts whole numbers.

What a cell is follows from the declaration alone. With a step, a cell is a value; without one, the range is cut finely,
and its ends and zero, at which values pile up, are cells of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array

FINEST = 2**20
"""Cells of a range without a step, and the most that one with a step is cut into."""

MANY = 256
"""Cells of a grid on which the ends and zero are cells of their own to begin with, too."""


@dataclass(frozen=True)
class Scale:
    """The cells of an amount between two bounds."""

    low: float
    high: float
    step: float | None = None

    @property
    def whole(self) -> bool:
        """Are all values whole numbers?"""
        return self.step is not None and float(self.step).is_integer() and float(self.low).is_integer()

    @cached_property
    def _on_grid(self) -> bool:
        return self.step is not None and round((self.high - self.low) / self.step) < FINEST

    @cached_property
    def edges(self) -> Array:
        """Where the cells begin; of a range without a step, single points have an edge on both sides."""
        if self._on_grid and self.step is not None:
            return np.arange(round((self.high - self.low) / self.step) + 1.0)
        points = [self.low, *([0.0] if self.low < 0 < self.high else []), self.high]
        parts = []
        for left, right in pairwise(points):
            inner = np.linspace(left, right, FINEST // (len(points) - 1) + 1)
            inner[0] = np.nextafter(left, np.inf)
            parts += [np.array([left]), inner[:-1]]
        return np.concatenate([*parts, [self.high]])

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.edges.size)

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """Runs of cells to begin with: single points by themselves."""
        if self._on_grid and self.step is not None:
            zero = round(-self.low / self.step) if self.low < 0 < self.high else 0
            ends = sorted({0, 1, zero, zero + 1, self.cells - 1, self.cells} if self.cells > MANY else {0, self.cells})
            return list(pairwise(ends))
        found, at = [], 0
        inner = (self.cells - 2 - (self.low < 0 < self.high)) // (1 + (self.low < 0 < self.high))
        while at < self.cells - 1:
            found += [(at, at + 1), (at + 1, at + 1 + inner)]
            at += 1 + inner
        return [*found, (at, at + 1)]

    def cells_of(self, values: Array) -> NDArray[np.int64]:
        """The cell of each value, -1 where it is missing; what is outside the bounds counts as the bound."""
        missing = np.isnan(values)
        inside = np.clip(np.where(missing, self.low, values), self.low, self.high)
        if self._on_grid and self.step is not None:
            found = np.rint((inside - self.low) / self.step)
        else:
            found = np.searchsorted(self.edges, inside, side="right") - 1.0
        return np.where(missing, -1, np.clip(found, 0, self.cells - 1)).astype(np.int64)

    def values_at(self, places: Array) -> Array:
        """Values at places on the line of cells (2.25: a quarter into the third cell), on the grid of the step."""
        if self._on_grid and self.step is not None:
            return self.rounded(self.low + np.floor(places) * self.step)
        whole = np.clip(np.floor(places).astype(np.int64), 0, self.cells - 1)
        left, right = self.edges[whole], np.append(self.edges[1:], self.high)[whole]
        values = left + (places - whole) * (right - left)
        # The cell after zero begins at the least number that there is, which nobody would take for an amount.
        return self.rounded(np.where(np.abs(values) < 1e-12 * (self.high - self.low), 0.0, values))

    def rounded(self, values: Array) -> Array:
        """On the grid of the step, if there is one, and within the bounds."""
        if self.step is not None:
            digits = max(0, -int(np.floor(np.log10(self.step))) + 6)
            values = np.round(self.low + np.rint((values - self.low) / self.step) * self.step, digits)
        return np.clip(values, self.low, self.high)
