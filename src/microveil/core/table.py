"""The table as the steps see it: a matrix of numbers with roles, and nothing about where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.moments import Pieces


@dataclass(frozen=True, repr=False)
class Matrix:
    """Columns of equal length, held as one array or as separate ones, read piece by piece without copying the whole."""

    columns: Sequence[Array]
    block: Array | None = None

    @classmethod
    def from_array(cls, values: Array) -> Matrix:
        """A view of a two-dimensional array."""
        return cls([values[:, j] for j in range(values.shape[1])], values)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.columns[0].shape[0] if self.columns else 0), len(self.columns)

    def piece(self, rows: slice) -> Array:
        """Some rows as a columns x rows array (possibly a view: not to be written to)."""
        if self.block is not None:
            return self.block[rows].T
        out = np.empty((len(self.columns), rows.stop - rows.start))
        for j, column in enumerate(self.columns):
            out[j] = column[rows]
        return out

    def select(self, columns: Sequence[int]) -> Matrix:
        """Some of the columns, in the order given."""
        if list(columns) == list(range(len(self.columns))):
            return self
        return Matrix([self.columns[j] for j in columns])

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Matrix:
        """Some of the rows, copied."""
        return Matrix([column[rows] for column in self.columns])


@dataclass(frozen=True, repr=False)
class Table:
    """What is to be protected, and what is known beside it.

    `values` has the public columns first, then the confidential ones: every step that needs both reads one piece.
    """

    values: Matrix
    names: tuple[str, ...]
    public: int = 0
    weights: Array | None = None
    strata: NDArray[np.intp] | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.values.shape[0]

    @property
    def confidential(self) -> Matrix:
        """The columns to be protected."""
        return self.values.select(range(self.public, len(self.names)))

    @property
    def confidential_names(self) -> tuple[str, ...]:
        """Their names."""
        return self.names[self.public :]

    @property
    def pieces(self) -> Pieces:
        """Public and confidential columns, piece by piece."""
        return self.values.piece

    def keep(self, confidential: Sequence[int]) -> Table:
        """The table with only some of its confidential columns (numbered among themselves)."""
        columns = [*range(self.public), *(self.public + j for j in confidential)]
        return replace(self, values=self.values.select(columns), names=tuple(self.names[j] for j in columns))

    def with_confidential(self, columns: Sequence[Array]) -> Table:
        """The table with other values in its confidential columns."""
        return replace(self, values=Matrix([*self.values.columns[: self.public], *columns]))

    def beside_public(self, columns: Sequence[Array], present: Mask) -> tuple[Array, Mask]:
        """Public columns, which have no holes, and others that have some, rows x columns; and which cells are there."""
        known = np.hstack([np.ones((self.count, self.public), dtype=bool), present])
        return np.column_stack([*self.values.columns[: self.public], *columns]), known

    def take(self, rows: NDArray[np.intp]) -> Table:
        """Some of the rows, as a table without strata."""
        weights = None if self.weights is None else self.weights[rows]
        return Table(self.values.take(rows), self.names, self.public, weights)


def rows_by_group(groups: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """The rows of each group (numbered from 0, none empty), in row order."""
    return np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
