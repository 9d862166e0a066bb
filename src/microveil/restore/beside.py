"""Arrangement beside columns that are released already, and are not what they were: those of the units of the rows.

The moments that are aimed at are those with the columns as they were; exchanges bring them about with the columns as
they are released. Arranged beside the old ones, the values would tell what these were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.moments import is_wide, moments
from microveil.core.rng import Stream
from microveil.core.table import NOTHING_BESIDE, Matrix, Microdata
from microveil.restore.arrange import ROUNDS, ROWS_PER_COLUMN, Arranged, _ExchangeSearch, arrange, mapped
from microveil.restore.calibrate import correction
from microveil.restore.marginals import Marginal


def arrange_beside(
    columns: list[Array], marginals: Sequence[Marginal], original: Microdata, present: Mask | None, stream: Stream
) -> Arranged:
    """As `arrange`, with the relations to the columns that `original` stands beside.

    Args:
        columns: in whose order the values start, used up.
        marginals: the values of each.
        original: the table, with the columns that it stands beside, before and after.
        present: which cells are there, rows x columns; None for all.
        stream: the random numbers.
    """
    beside, public = original.beside, list(original.values.columns[: original.public])
    names = [f"beside {j}" for j in range(len(beside.before))]
    target = replace(
        original,
        values=Matrix([*public, *beside.before, *original.confidential.columns]),
        names=(*original.names[: original.public], *names, *original.confidential_names),
        public=len(public) + len(names),
        beside=NOTHING_BESIDE,
    )
    labels = original.labels
    if not names or (len(target.names) + len(labels.names)) * ROWS_PER_COLUMN > target.count:
        return arrange(columns, marginals, replace(original, beside=NOTHING_BESIDE), present, stream)
    start = [
        codes[stream.child(f"labels {name}").generator().permutation(codes.size)]
        for name, codes in zip(labels.names, labels.codes, strict=True)
    ]
    search = _ExchangeSearch(target, present)
    stay = [*public, *beside.after]
    for number in range(ROUNDS + 1 if columns else 0):
        if number and not _calibrated_beside(columns, stay, target):
            break
        mapped(columns, marginals)
    columns[:0] = stay
    features = search.features(columns, start)
    settled = search.run(features, stream)
    return Arranged(search.values(features, marginals), search.labels(features, start), settled)


def _calibrated_beside(columns: Sequence[Array], stay: Sequence[Array], target: Microdata) -> bool:
    """Give the columns the moments of the target beside columns that `stay`, in place; False if that cannot be."""
    count, weights = target.count, target.weights
    if is_wide(count, len(columns) + len(stay)):
        return False
    now = Matrix([*stay, *columns])
    fix = correction(
        moments(now.piece, count, weights=weights),
        moments(target.pieces, count, weights=weights),
        len(stay),
        list(range(len(columns))),
    )
    if not np.isfinite(fix.condition):
        return False
    moved = fix.matrix.T @ now.piece(slice(0, count))
    for column, values, constant in zip(columns, moved, fix.constant, strict=True):
        column[:] = values + constant
    return True
