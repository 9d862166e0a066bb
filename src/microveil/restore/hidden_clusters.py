"""Clusters that the columns hide: groups of records inside which columns go together in another way than elsewhere.

A mixture of normal distributions is fitted to the normal scores of the columns by the EM algorithm. The number of its
components is the one with the least information criterion (BIC), and may be one: then there are no clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.late import special
from microveil.core.rng import Stream
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Microdata

MOST_CLUSTERS = 8

LEAST_RECORDS = 60
"""Records of a cluster, at least; more where columns are many: each cluster has moments of its own, at most one for
each of its records."""

MOST_DIMENSIONS = 8
"""Principal components of the scores that the mixture is fitted to."""

MOST_FITTED = 4_000
"""Records that the mixture is fitted to, drawn at random; then each record is given to its most probable component."""

BLUR = 4e-4
"""Added to the variances of each component, so that none shrinks to a heap of equal values."""

ROWS = 65_536
"""Records that are given to components at a time."""

STEPS, ENOUGH = 100, 1e-3
"""Steps of the EM algorithm, and the gain of the mean log-likelihood below which it ends."""


def hidden_clusters(
    original: Microdata, moments: int, stream: Stream, most: int = MOST_CLUSTERS
) -> NDArray[np.int8] | None:
    """The cluster of each record; None where there are none, or too few records for them.

    Args:
        original: columns without missing cells.
        moments: how many correlations are fitted to in each cluster.
        stream: for the records that the mixture is fitted to, and where the search for it starts.
        most: of how many clusters there may be.
    """
    least = max(LEAST_RECORDS, moments)
    columns = [column for column in original.values.columns if column.min() < column.max()]
    if original.count < 2 * least or len(columns) < 2:
        return None
    generator = stream.child("clusters").generator()
    rows = generator.permutation(original.count)[:MOST_FITTED].copy()
    own = np.column_stack([_normal_scores(column[rows]) for column in columns])
    onto = np.linalg.eigh(own.T @ own)[1][:, ::-1][:, :MOST_DIMENSIONS]
    sample = own @ onto
    scores: list[Array] = []
    best, lowest = None, np.inf
    for count in range(1, min(most, original.count // least) + 1):
        mixture = _Mixture.fitted(sample, count, generator)
        criterion = mixture.criterion(sample)
        if criterion >= lowest:
            continue
        if count == 1:
            lowest = criterion
            continue
        scores = scores or [original.values.put_aside(_normal_scores(column[:])) for column in columns]
        numbers = _most_probable(mixture, scores, onto)
        if np.bincount(numbers, minlength=count).min() >= least:
            best, lowest = numbers, criterion
    return best


def _normal_scores(column: Array) -> Array:
    """The normal quantile of each value's rank, less their mean."""
    scores = np.asarray(special.ndtri((mid_ranks(column) - 0.5) / column.size))
    centred: Array = scores - scores.mean()
    return centred


def _most_probable(mixture: _Mixture, scores: Sequence[Array], onto: Array) -> NDArray[np.int8]:
    """The most probable component of each record, by its normal scores (rows, of each column) and the axes."""
    numbers = np.empty(len(scores[0]), np.int8)
    for start in range(0, numbers.size, ROWS):
        rows = slice(start, min(start + ROWS, numbers.size))
        numbers[rows] = mixture.densities(np.column_stack([own[rows] for own in scores]) @ onto).argmax(axis=1)
    return numbers


@dataclass(frozen=True, repr=False)
class _Mixture:
    """A mixture of normal distributions: the share of each, its centre, and the root of its inverse covariance."""

    shares: Array
    centres: Array
    whitening: Array

    @classmethod
    def fitted(cls, points: Array, count: int, generator: np.random.Generator) -> _Mixture:
        """So many components fitted to points (rows x dimensions), from the clusters around means on."""
        from scipy.cluster.vq import kmeans2

        parts = np.eye(count)[kmeans2(points, count, minit="++", rng=generator, missing="warn")[1]]
        last = -np.inf
        for _ in range(STEPS):
            mixture = cls._of_parts(points, parts)
            logs = mixture.densities(points)
            total = np.logaddexp.reduce(logs, axis=1)
            parts = np.exp(logs - total[:, None])
            if total.mean() - last < ENOUGH:
                break
            last = total.mean()
        return mixture

    @classmethod
    def _of_parts(cls, points: Array, parts: Array) -> _Mixture:
        """The most likely one, if component k has the part `parts[i, k]` of point i."""
        sizes = parts.sum(axis=0) + 1e-9
        centres = parts.T @ points / sizes[:, None]
        whitening = np.empty((len(sizes), points.shape[1], points.shape[1]))
        for number, (size, centre) in enumerate(zip(sizes, centres, strict=True)):
            centred = points - centre
            covariance = (parts[:, number, None] * centred).T @ centred / size + BLUR * np.eye(points.shape[1])
            whitening[number] = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(sizes / len(points), centres, whitening)

    def densities(self, points: Array) -> Array:
        """The log of the density of each component, times its share: rows x components."""
        logs = np.empty((len(points), len(self.shares)))
        for number, (centre, whitening) in enumerate(zip(self.centres, self.whitening, strict=True)):
            squares = np.square((points - centre) @ whitening.T).sum(axis=1)
            logs[:, number] = np.log(np.diag(whitening)).sum() - squares / 2
        logs += np.log(self.shares) - points.shape[1] / 2 * np.log(2 * np.pi)
        return logs

    def criterion(self, points: Array) -> float:
        """Bayes's information criterion: less is better."""
        count, width = len(self.shares), points.shape[1]
        parameters = count * (1 + width + width * (width + 1) / 2) - 1
        likelihood = np.logaddexp.reduce(self.densities(points), axis=1).sum()
        return float(parameters * np.log(len(points)) - 2 * likelihood)
