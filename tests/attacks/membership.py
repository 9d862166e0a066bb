"""Attacks on membership for tests: without training, and by an intruder who has made releases like this one.

Members are records that were in the file, non-members others of the same population; all three tables are arrays with
the same columns. Areas are .5 if nothing is told; ties count one half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Protect = Callable[[Array, int], Array]
"""Makes a release of a table, with a seed."""


class Attacked(NamedTuple):
    """A release, those who are in it, and others of the same population."""

    members: Array
    nonmembers: Array
    released: Array


SMALLEST = 1e-4
"""Standard deviations added to a gap before its logarithm is taken."""


class Told(NamedTuple):
    """The area under the curve, and the share of members found where one non-member of a hundred is taken for one."""

    auc: float
    found: float


def untrained_gap_auc(members: Array, nonmembers: Array, released: Array) -> Told:
    """Sum over the columns of the logarithm of the distance to the nearest released value."""
    scale = members.std(axis=0)
    return told(*(-log_gaps(side, released, scale).sum(axis=1) for side in (members, nonmembers)))


def nearest_auc(members: Array, nonmembers: Array, released: Array) -> Told:
    """Distance to the nearest released record, columns in standard deviations."""
    from scipy.spatial.distance import cdist

    scale = np.where(members.std(axis=0) > 0, members.std(axis=0), 1.0)
    return told(*(-cdist(side / scale, released / scale).min(axis=1) for side in (members, nonmembers)))


def trained_gap_auc(target: Attacked, shadows: Sequence[Attacked]) -> Told:
    """The same gaps, weighed by a logistic regression that has learnt from releases of other halves of the data.

    The intruder knows the method and the population, and makes shadow releases whose members are known.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    gaps = [log_gaps(np.vstack([inside, outside]), made, inside.std(axis=0)) for inside, outside, made in shadows]
    labels = [np.repeat([1, 0], [len(inside), len(outside)]) for inside, outside, _ in shadows]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1_000))
    model.fit(np.vstack(gaps), np.concatenate(labels))
    members, nonmembers, released = target
    scale = members.std(axis=0)
    return told(*(model.decision_function(log_gaps(side, released, scale)) for side in (members, nonmembers)))


def attacked(protect: Protect, data: Array, seed: int) -> Attacked:
    """A half of the data is released."""
    members, strangers = halves(data, np.random.default_rng(seed))
    return Attacked(members, strangers, protect(members, seed))


def halves(data: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The records in two halves, drawn at random."""
    order = rng.permutation(len(data))
    return data[order[: len(data) // 2]], data[order[len(data) // 2 :]]


def log_gaps(records: Array, released: Array, scale: Array) -> Array:
    """Logarithm of the distance to the nearest released value, record by record and column by column."""
    found = []
    for values, column, sd in zip(records.T, released.T, scale, strict=True):
        ordered = np.sort(column)
        place = np.searchsorted(ordered, values)
        below = np.abs(values - ordered[np.maximum(place - 1, 0)])
        above = np.abs(values - ordered[np.minimum(place, ordered.size - 1)])
        found.append(np.log(np.minimum(below, above) / (sd or 1.0) + SMALLEST))
    return np.column_stack(found)


def told(members: Array, nonmembers: Array) -> Told:
    """From scores that are higher for those who look like members."""
    ordered = np.sort(nonmembers)
    below = np.searchsorted(ordered, members, "left") + np.searchsorted(ordered, members, "right")
    limit = ordered[-1 - int(0.01 * ordered.size)]
    return Told(float(below.mean() / (2 * ordered.size)), float((members > limit).mean()))
