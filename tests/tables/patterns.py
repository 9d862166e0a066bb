"""What follows from the published cells of a small table, worked out the slow way: by ranks of dense matrices."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def rank(rows):
    return np.linalg.matrix_rank(rows) if len(rows) else 0


def determined(rows, targets):
    """Which of the targets are combinations of the rows."""
    base = rank(rows)
    return np.array([rank(np.vstack([rows, target])) == base for target in targets], dtype=bool)


def known_cells(table, suppressed, also=()):
    """The hidden cells that a reader can work out, who also knows some inner cells."""
    matrix = table.matrix.toarray().astype(float)
    rows = np.vstack([matrix[~suppressed], np.eye(table.inner_count)[list(also)]])
    hidden = np.flatnonzero(suppressed)
    return hidden[determined(rows, matrix[hidden])]


def plain_greedy(table, primary, order, known):
    """From the cell most worth showing on: show it unless a primary cell would follow from what is shown then."""
    matrix = table.matrix.toarray().astype(float)
    shown, suppressed = list(np.flatnonzero(known)), primary.copy()
    for cell in order:
        if determined(matrix[[*shown, cell]], matrix[primary]).any():
            suppressed[cell] = True
        else:
            shown.append(cell)
    return suppressed


def bounds(table, suppressed, inner, least):
    """The lowest and highest value of an inner cell, if inner cells are known to be at least so much."""
    matrix = table.matrix.toarray().astype(float)
    published = matrix[~suppressed]
    cost = np.eye(table.inner_count)[inner]
    ends = [
        linprog(
            sign * cost,
            A_eq=published,
            b_eq=published @ table.inner_values,
            bounds=[(low, None) for low in least],
            method="highs",
        )
        for sign in (1, -1)
    ]
    return ends[0].fun, -ends[1].fun if ends[1].status == 0 else np.inf
