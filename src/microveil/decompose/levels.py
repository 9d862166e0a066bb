"""Two levels of a regression: within clusters of records, and across them (Langsrud 2019, §6).

Y = fit within + fit across + between + within, four orthogonal parts. The first is the regression on X_A inside each
cluster; the second that on X_B, made orthogonal to it, over all records; `between` is what slopes of X_B of their own
would add in each cluster, and `within` what is left then. The same split serves the data and drawn values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.factor import generalised_qr, without_round_off

Rows = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class Parts:
    """The four parts of some columns, rows x columns each: Ŷ1, Ŷ2, Ê3 and Ê4 of the paper (eq. 19)."""

    fit_within: Array
    fit_across: Array
    between: Array
    within: Array

    @property
    def fit(self) -> Array:
        """What the regressions explain, which is kept as it is."""
        return self.fit_within + self.fit_across

    @property
    def residuals(self) -> Array:
        """What they leave, which is replaced."""
        return self.between + self.within


@dataclass(frozen=True, repr=False)
class Levels:
    """The clusters with orthonormal bases of what is regressed on: X_A and X_2 in each, and X_2 over all records."""

    clusters: Sequence[Rows]
    local: Sequence[Array]
    slopes: Sequence[Array]
    across: Array

    def split(self, columns: Array) -> Parts:
        """The four parts of some columns (steps 2-5, 7 and 8 of the algorithm)."""
        fit_within, extended = np.empty_like(columns), np.empty_like(columns)
        for rows, local, slopes in zip(self.clusters, self.local, self.slopes, strict=True):
            values = columns[rows]
            fit_within[rows] = local @ (local.T @ values)
            extended[rows] = slopes @ (slopes.T @ values)
        fit_across = self.across @ (self.across.T @ columns)
        between = without_round_off(extended - fit_across, columns)
        within = self._without_round_off(columns - fit_within - extended, columns)
        return Parts(fit_within, fit_across, between, within)

    def _without_round_off(self, residuals: Array, columns: Array) -> Array:
        for rows in self.clusters:
            residuals[rows] = without_round_off(residuals[rows], columns[rows])
        return residuals

    @property
    def free(self) -> list[int]:
        """How many dimensions each cluster has left for its residuals."""
        return [
            rows.size - local.shape[1] - slopes.shape[1]
            for rows, local, slopes in zip(self.clusters, self.local, self.slopes, strict=True)
        ]


def fit_levels(clusters: Sequence[Rows], local: Array, across: Array, pieces: NDArray[np.intp] | None = None) -> Levels:
    """Bases of `local` and of `across` (rows x columns), the latter without what the former explains (steps 2 and 3).

    The constant is in `local` by itself. Where clusters have `pieces`, each piece has a constant of its own.
    """
    left = np.array(across, dtype=np.float64)
    bases, slopes = [], []
    for rows in clusters:
        constant = np.ones((rows.size, 1)) if pieces is None else _indicators(pieces[rows])
        basis = generalised_qr(np.hstack([constant, local[rows]])).scores
        bases.append(basis)
        left[rows] -= basis @ (basis.T @ left[rows])
        left[rows] = without_round_off(left[rows] - basis @ (basis.T @ left[rows]), across[rows])
        slopes.append(generalised_qr(left[rows]).scores)
    return Levels(clusters, bases, slopes, generalised_qr(left).scores)


def crossed(columns: Array, groups: NDArray[np.intp]) -> Array:
    """Each column once for each group, and zero outside of it."""
    marks = _indicators(groups)
    return np.hstack([columns * mark[:, None] for mark in marks.T]) if columns.size else np.empty((groups.size, 0))


def _indicators(groups: NDArray[np.intp]) -> Array:
    """A column for each group that is present: 1 for its members."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.eye(int(numbers.max()) + 1)[numbers]
