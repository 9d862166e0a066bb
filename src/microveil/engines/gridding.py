"""Released columns with exact moments, mapped to moments on a grid: one small matrix for every row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.moments import Moments
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import for_each_piece
from microveil.restore import correction, on_grid


@dataclass(frozen=True, repr=False)
class Gridding:
    """The map of confidential columns, with public ones before them: `mean + constant + (cells - means) @ matrix`."""

    means: Array
    matrix: Array
    constant: Array
    public: int
    remark: str

    def of_columns(self, table: Microdata, columns: list[Array]) -> list[Array]:
        """Columns that are held."""
        public, released = table.regressors, Matrix(columns)
        new = np.empty((len(columns), table.count))

        def fill(piece: slice, room: Array) -> None:  # noqa: ARG001 - a grid needs no room of its own
            new[:, piece] = self.of_rows(public.piece(piece), released.piece(piece))

        for_each_piece(fill, table.count, len(columns))
        return list(new)

    def of_rows(self, cells: Array, released: Array) -> Array:
        """Some rows: their cells, of which public columns are the first, and the confidential ones to be released."""
        off_centre = np.vstack([cells[: self.public], released]) - self.means[:, None]
        new: Array = np.ascontiguousarray(self.matrix.T) @ off_centre
        new += self.constant[:, None]
        new += self.means[self.public :, None]
        return new


def gridding(table: Microdata, summary: Moments, lowest: Array, highest: Array) -> Gridding:
    """What brings columns with exact moments to the grid; `summary` and the extremes are of the original."""
    if table.weights is not None and not isinstance(table.weights, np.ndarray):
        raise ParameterError("exact: 'rounded' does not go with weights on Spark", "use engine='stream'")
    heaviest = 1.0 if table.weights is None else float(table.weights.max())
    found = on_grid(summary, lowest, highest, table.public, heaviest)
    zero = np.zeros_like(summary.offset)
    now = replace(summary, shift=zero, offset=zero)
    goal = replace(found.moments, shift=zero, offset=found.moments.mean - summary.mean)
    fix = correction(now, goal, table.public, list(range(zero.size - table.public)))
    if not np.isfinite(fix.condition):
        raise DataError("exact: the columns are collinear, and their moments cannot be rounded", "use exact=False")
    remark = ""
    if found.left < 1:
        remark = f"rounded correlations do not fit together: {1 - found.left:.0%} were taken off all of them"
    return Gridding(summary.mean, fix.matrix, fix.constant, table.public, remark)
