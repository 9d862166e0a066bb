"""What is refused before any row is touched: tables in which nothing could be hidden."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import leverage, regression_slopes
from microveil.core.moments import Moments, is_wide
from microveil.core.table import Microdata
from microveil.decompose import Centre
from microveil.engines.rows import ColumnTask
from microveil.methods import Plan

HIGH_LEVERAGE = 0.5
"""Share of a record's own weight in its fitted value from which on the public columns all but tell its values."""

ALONE = 1 - 1e-9
"""Leverage of a record that the fit must pass through: the only one of its label, in its stratum say."""


MOST_WITH_HOLES = 2_000
"""Columns of a wide table with missing cells, at most: every pair of columns has rows of its own then."""


def check_holes(table: Microdata) -> None:
    """Refuse tables with missing cells that are too wide for matrices of all pairs of columns."""
    count, width = table.count, len(table.names)
    if is_wide(count, width) and width > MOST_WITH_HOLES:
        raise DataError(
            f"cells are missing, and there are {count} rows of {width} columns: with fewer rows than columns, at most "
            f"{MOST_WITH_HOLES} columns may have missing cells among them",
            "fill the missing cells first, or protect some columns at a time",
        )


def has_own_moments(task: ColumnTask) -> bool:
    """Are the scores as free as their number says?

    If there are more scores than dimensions, those that stay determine all the others, and exact moments of the scores
    would bring every one of them back. It is then the joined data that get their moments back.
    """
    noise = 0 if task.axes.noise is None else task.axes.noise.shape[0]
    return task.axes.count <= task.axes.columns.size + noise


def check_sensitive(table: Microdata, sensitive: list[int], determined: list[int]) -> None:
    """A sensitive column must have something of its own."""
    for j in sensitive:
        if j in determined:
            raise DataError(
                f"sensitive: the public columns determine '{table.confidential_names[j]}'", "make fewer columns public"
            )


def check_determined(table: Microdata, determined: list[int]) -> None:
    """A column that the public ones leave nothing of would be released as it is."""
    if determined:
        names = ", ".join(f"'{table.confidential_names[j]}'" for j in determined)
        raise DataError(
            f"public: these columns determine {names}, so nothing of it would be replaced",
            "make fewer columns public, or leave it out of confidential",
        )


def check_noise(task: ColumnTask) -> None:
    """Noise that is uncorrelated with the data needs rows enough to be so."""
    table, noise = task.table, task.axes.noise
    columns = task.axes.columns.size
    if noise is not None and table.count - 1 - table.public - columns < noise.shape[0]:
        raise DataError(
            f"exact scores of {noise.shape[0]} factors of {columns} columns need more than {table.count} rows",
            "use scores='regression', or more rows",
        )


def check_room(plan: Plan, task: ColumnTask) -> None:
    """Exact moments tie the perturbed scores to all that stays; what is left must be more than a change of sign."""
    table, untouched = task.table, task.axes.count - len(task.selected)
    if plan.exact and table.count - 1 - table.public - untouched < max(len(task.selected), 2):
        raise DataError(
            f"exact moments of {table.count} rows with {untouched} components untouched leave no other table than this",
            "perturb all components, use exact=False, or more rows",
        )


def high_leverage(table: Microdata, centre: Centre, summary: Moments) -> int:
    """How many records are so far out in the public columns that the fit follows them."""
    public = table.public
    if public == 0:
        return 0
    inverse = regression_slopes(summary.between(slice(0, public), slice(0, public)), np.eye(public))
    shift, offset = centre.shift[:public, None], centre.offset[:public, None]

    def standing_out(cells: Array, rows: slice) -> Array:
        x = cells - shift - offset
        weight = 1.0 if table.weights is None else table.weights[rows]
        own = leverage((x * (inverse @ x)).sum(axis=0), weight, summary.weight)
        return np.array([np.count_nonzero(own > HIGH_LEVERAGE), np.count_nonzero(own > ALONE)])

    high, alone = table.total(standing_out, range(public)).tolist()
    if alone:
        raise DataError(
            f"public: {alone} records are alone in what the public columns say, and would be released as they are",
            "group rare values, or make fewer columns public",
        )
    return int(high)
