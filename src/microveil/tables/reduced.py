"""The reduced system: inner cells that are not published, and the published sums of them (Langsrud 2019, §7).

What is published fixes most inner cells; of the rest only sums are known. Everything that is asked of a suppressed
table (fitted values, decimals, what an intruder can derive) is asked of this small system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Index, Mask
from microveil.core.late import sparse
from microveil.core.tolerances import UNIT_ROUND_OFF

RIDGE = 1e-10
"""Added to the diagonal of the normal equations, as sums may depend on others; later steps take it out again."""

NO_PIVOT = 1e-5
"""A pivot below this is nothing but the ridge; that of a sum which no others give is of the order of one."""

STEPS = 12
"""Two or three suffice: each leaves a share of the ridge over the smallest squared singular value."""


@dataclass(frozen=True, repr=False)
class Reduced:
    """`sums @ y[unknown]` is published, and nothing else is known of these inner cells.

    `rows` are the published cells behind the sums. The columns of `sums` are in the order of the inner cells.
    """

    unknown: Index
    rows: Index
    sums: Any

    @property
    def size(self) -> int:
        """How many inner cells are unknown."""
        return int(self.unknown.size)

    @cached_property
    def _factor(self) -> Any:
        return ridged_factor(self.sums @ self.sums.T, RIDGE)

    @cached_property
    def independent(self) -> Mask:
        """Which of the sums do not follow from others; of those that do, the longest are left out first."""
        if not self.rows.size:
            return np.zeros(0, dtype=bool)
        own: Mask = np.abs(self._factor.U.diagonal())[self._factor.perm_c] > NO_PIVOT
        return own

    @property
    def rank(self) -> int:
        """How many of the sums are independent."""
        return int(np.count_nonzero(self.independent))

    @property
    def freedom(self) -> int:
        """In how many directions the unknown cells can move while every published cell stays: n - rank(X)."""
        return self.size - self.rank

    def residuals(self, values: Array) -> Array:
        """What the published sums leave of values of the unknown cells, a column for each variable: (I - P) y.

        The sums may be dependent, so this is the result of a pseudo-inverse (eq. 21); it comes from sparse normal
        equations with a little on their diagonal, and steps that take it out again.
        """
        left = np.array(values, dtype=np.float64)
        if not self.rows.size:
            return left
        size = np.abs(left).max(initial=0.0)
        for _ in range(STEPS):
            explained = self.sums @ left
            if np.abs(explained).max(initial=0.0) <= UNIT_ROUND_OFF * size:
                break
            left -= self.sums.T @ self._factor.solve(explained)
        return left


def ridged_factor(normal: Any, ridge: float) -> Any:
    """The sparse factor of normal equations with a little on their diagonal."""
    ridged = (normal + ridge * sparse.eye_array(normal.shape[0])).tocsc()
    return sparse.linalg.splu(
        ridged, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


def reduced(matrix: Any, suppressed: Mask) -> Reduced:
    """The system of a table (published cells × inner cells) in which these of the published cells are suppressed.

    A published sum in which one unknown cell is left gives that cell away, so that it is known, too; and so on. Sums
    of the same cells are kept once.
    """
    public = np.flatnonzero(~suppressed)
    sums = sparse.csr_array(matrix)[public]
    unknown = np.ones(sums.shape[1], dtype=bool)
    while True:
        left = sums @ unknown.astype(np.float64)
        alone = sums[left == 1]
        given = np.unique(alone.indices[unknown[alone.indices]])
        if not given.size:
            break
        unknown[given] = False
    inner, kept = np.flatnonzero(unknown), np.flatnonzero(left > 0)
    sums = sparse.csr_array(sums[kept][:, inner], dtype=np.float64)
    sums.sort_indices()
    first: dict[bytes, int] = {}  # rows that repeat none before them
    for row in range(sums.shape[0]):
        first.setdefault(sums.indices[sums.indptr[row] : sums.indptr[row + 1]].tobytes(), row)
    once = np.fromiter(first.values(), dtype=np.intp)
    return Reduced(inner, public[kept[once]], sums[once])


def pieces(sums: Any) -> Sequence[tuple[Index, Index]]:
    """The rows and columns of each part of a system that shares no cell with the others."""
    rows = sums.shape[0]
    if not rows:
        return [(np.empty(0, dtype=np.intp), np.array([column])) for column in range(sums.shape[1])]
    graph = sparse.block_array([[None, sums], [sums.T, None]])
    count, label = sparse.csgraph.connected_components(graph, directed=False)
    order = np.argsort(label, kind="stable")
    parts = np.split(order, np.searchsorted(label[order], np.arange(1, count)))
    return [(part[part < rows], part[part >= rows] - rows) for part in parts]
