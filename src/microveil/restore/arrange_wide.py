"""The arrangement of tables with many columns: the same search as in `arrange`, in the space of the rows.

With many columns and few rows, second moments between all columns are many more numbers than the table has. The loss
and its gradient are sums over pairs of rows just as well: with X the features of the release, Y those of the original,
T = Y'WY and R = T + ridge, the loss trace(R^-1 E R^-1 E) with E = X'WX - T is the sum of w_i w_k (x_i'R^-1 x_k)^2, less
twice that of y and x, and that of y and y. R^-1 = (1 - G G') / ridge has as many dimensions as there are rows. So a
pass costs columns x rows^2, and no matrix of columns x columns is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.moments import WIDE, is_wide
from microveil.core.rng import Stream

PRODUCTS, LEAST_PASSES, MOST_PASSES = 2e9, 4, 100
"""Columns x rows^2 that the passes add up to at most, each of them some ten operations in every layer."""

MOST_ROWS = 2_000
"""Rows up to which pairs of rows are fewer than what many columns ask for, even if the columns are fewer still."""

STALLED, PATIENCE = 0.99, 5
"""The search ends if the loss is not below this share of what it was so many passes ago."""

COLUMNS_AT_ONCE = 256
"""Columns whose moments with all others are compared at once."""


def goes_by_rows(count: int, columns: int) -> bool:
    """Is the search in the space of the rows the shorter one?"""
    return is_wide(count, columns) or (columns >= WIDE and count <= MOST_ROWS)


@dataclass(frozen=True, repr=False)
class WideSearch:
    """Exchanges towards the second moments of the original `features` (rows x layers x columns).

    `weights` add up to one; cells with different `marks` do not exchange values; the `fixed` first columns stay.
    """

    features: NDArray[np.float32]
    weights: Array
    marks: NDArray[np.uint8]
    fixed: int
    ridge: float
    emphasis: Array

    def run(self, features: NDArray[np.float32], stream: Stream) -> tuple[float, float]:
        """Pass after pass, in place; the largest error of a correlation and of a rank correlation that is left."""
        from microveil.restore._wide_kernels import exchange_by_rows

        target, cells = _by_layer(self.features), _by_layer(features)
        _, width, rows = cells.shape
        axes = self._axes(target)
        own = (target - axes @ _turned(axes, target)) / self.ridge
        least = self._squares(_turned(own, target))
        passes = int(np.clip(PRODUCTS / (width * rows**2), LEAST_PASSES, MOST_PASSES))
        losses: list[float] = []
        for number in range(passes):
            # From the cells again in each pass: what is kept up to date gathers round-off.
            onto = _turned(axes, cells)
            now = (_turned(cells, cells) - _turned(onto, onto)) / self.ridge
            across = _turned(own, cells)
            losses.append(self._squares(now) - 2 * self._squares(across) + least)
            if number >= PATIENCE and losses[-1] > STALLED * losses[-1 - PATIENCE]:
                break
            seed = stream.generator(number).integers(2**63)
            matrices = (axes, own, self.ridge, onto, now, across)
            exchange_by_rows(cells, self.weights, self.marks, self.fixed, *matrices, self.emphasis, seed)
        features[:] = cells.transpose(2, 0, 1)
        return self._largest(cells[0], target[0]), self._largest(cells[1], target[1])

    def _axes(self, target: Array) -> Array:
        """G of each layer (columns x rows): with the target T = F F', T + ridge has the inverse (1 - G G') / ridge."""
        factor = target * np.sqrt(self.weights)
        values, vectors = np.linalg.eigh(_turned(factor, factor))
        axes: Array = factor @ (vectors / np.sqrt(self.ridge + np.clip(values, 0, None))[:, None, :])
        return axes

    def _squares(self, products: Array) -> float:
        """The sum over layers and pairs of rows of the squared products, with the weights of both."""
        by_layer = np.einsum("lik,i,k->l", np.square(products), self.weights, self.weights)
        return float(self.emphasis @ by_layer)

    def _largest(self, now: Array, target: Array) -> float:
        """The largest error between a moving column and any other, in a layer."""
        worst = 0.0
        for start in range(self.fixed, now.shape[0], COLUMNS_AT_ONCE):
            some = slice(start, start + COLUMNS_AT_ONCE)
            error = (now[some] * self.weights) @ now.T - (target[some] * self.weights) @ target.T
            error[np.arange(error.shape[0]), start + np.arange(error.shape[0])] = 0.0
            worst = max(worst, float(np.abs(error).max(initial=0.0)))
        return worst


def _by_layer(features: NDArray[np.float32]) -> Array:
    """Layers x columns x rows, in double precision."""
    return np.ascontiguousarray(features.transpose(1, 2, 0), dtype=np.float64)


def _turned(left: Array, right: Array) -> Array:
    """The product of left' and right, layer by layer."""
    return np.ascontiguousarray(left.transpose(0, 2, 1) @ right)
