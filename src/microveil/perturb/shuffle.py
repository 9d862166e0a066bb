"""Data shuffling: each column keeps its values, in an order that a model of the ranks has drawn."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.core.keys import Codes
from microveil.core.late import special
from microveil.core.linalg import nearest_correlation, regression_slopes
from microveil.core.sorted_columns import mid_ranks
from microveil.perturb.base import Columns, JointNormalPerturbation, Labels, with_covariance
from microveil.perturb.swap import exchanged

OFF = 0.1
"""Share by which the variance that public columns explain may differ from what the rank correlations say."""


class Shuffle(JointNormalPerturbation):
    """Put the values of each column in an order drawn from a normal model of the ranks, given the public columns.

    Muralidhar and Sarathy (2006). New normal scores are their expectation given the public columns, plus noise of the
    covariance that they leave open; then the smallest score gets the column's smallest value, and so on. So the values
    come back exactly and the rank correlations on average, also those with public columns; given these, a released
    order says nothing about the order there was. Original extremes are released. Survey weights play no part.
    """

    reference: ClassVar[str] = "Muralidhar and Sarathy (2006)"
    keeps_mean: ClassVar[bool] = True
    # What comes back are rank correlations: uncorrelated columns that have some may correlate after it.
    keeps_variance: ClassVar[bool] = False
    knows_weights: ClassVar[bool] = False
    regresses_itself: ClassVar[bool] = True
    masks_labels: ClassVar[bool] = True

    def mask_labels(self, labels: Labels) -> Codes:
        """Each column in a random order: labels without ranks have no place in the model."""
        return exchanged(labels)

    def apply_together(self, columns: Columns) -> Array:
        """The values, in the order of the scores drawn."""
        scores = drawn_scores(columns.public, columns.values, self.deviates(columns))
        new = np.empty_like(columns.values)
        for cells, values, column in zip(new, columns.values, scores, strict=True):
            cells[np.argsort(column, kind="stable")] = np.sort(values)
        return new


def drawn_scores(public: Array, values: Array, deviates: Array) -> Array:
    """New normal scores for the columns of `values`, a row each: their expectation given the public ones, and noise.

    The model takes public columns for normal ones, and rank correlations for those of normal columns. Where labels,
    heaps of zeros or correlations that do not fit together make this fail, the public columns count with the variance
    and the correlations that their scores have, and the others are made to fit.
    """
    known = len(public)
    ranks = np.array([mid_ranks(column) for column in (*public, *values)])
    correlation = normal_correlations(ranks)
    scores = normal_scores(ranks[:known])
    if not _fits(correlation, scores):
        scores = _standardised(scores)
        own = scores @ scores.T / scores.shape[1]
        np.fill_diagonal(own, 1.0)
        correlation[:known, :known] = own
        correlation = nearest_correlation(correlation)
    slopes, left = conditional(correlation, known)
    return slopes.T @ scores + with_covariance(deviates, left)


def normal_correlations(ranks: Array) -> Array:
    """The correlations that normal columns with these ranks have: 2 sin(π r / 6) of Spearman's r."""
    centred = _standardised(ranks)
    correlation: Array = 2 * np.sin(np.pi / 6 * (centred @ centred.T) / ranks.shape[1])
    np.fill_diagonal(correlation, 1.0)
    return correlation


def normal_scores(ranks: Array) -> Array:
    """The normal quantiles of (rank - 1/2) / n."""
    scores: Array = special.ndtri((ranks - 0.5) / ranks.shape[1])
    return scores


def conditional(correlation: Array, known: int) -> tuple[Array, Array]:
    """Slopes of the other columns on the `known` first ones, and the covariance that these leave open."""
    x, y = slice(0, known), slice(known, None)
    slopes = regression_slopes(correlation[x, x], correlation[x, y])
    left = correlation[y, y] - correlation[x, y].T @ slopes
    return slopes, (left + left.T) / 2


def _fits(correlation: Array, scores: Array) -> bool:
    """Do the correlations belong to one matrix, and does what public scores explain have the variance they promise?"""
    if np.linalg.eigvalsh(correlation)[0] < -1e-9:
        return False
    slopes, left = conditional(correlation, len(scores))
    promised = 1 - np.diagonal(left)
    return bool((np.abs((slopes.T @ scores).var(axis=1) - promised) <= OFF * promised).all())


def _standardised(rows: Array) -> Array:
    """Rows with mean 0 and variance 1; one that is constant stays at 0, as it has no information."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    sd = centred.std(axis=1, keepdims=True)
    standardised: Array = centred / np.where(sd > 0, sd, 1.0)
    return standardised
