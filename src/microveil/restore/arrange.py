"""Arrangement: which record gets which value, so that moments and rank correlations come back.

Columns that keep their values can only exchange them between records. Two records that exchange their values of one
column change its covariances with all others, and nothing else; so exchanges are tried at random and made when they
bring the second moments of the release nearer to those of the original. Four layers count at once:
of the values (Pearson's correlations), of the ranks (Spearman's), and of the squares and cubes of the ranks, which
tell whether columns are far out together. Like is matched with like only: a bend (y against x²) is not. In each layer
the error is measured in units of the target (`trace(T^-1 E T^-1 E)`), so that a direction in which the columns hardly
vary counts as much as the first.

These are some hundred sums over all records, of data whose records have been torn apart before: which of the many
arrangements with the same sums comes out is chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.moments import is_wide, moments
from microveil.core.rng import Stream
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import in_threads, segments
from microveil.restore.calibrate import correction
from microveil.restore.marginals import Marginal

ROUNDS = 3
"""Rounds of calibrating and mapping before the exchanges: they do most of the work, column by column."""

RIDGE, WEIGHTED_RIDGE = 1e-3, 0.1
"""Added to the target before it is inverted: below this share of its variance, a direction is left to chance.

Weights that fall with size leave large values little weight, so the target is smaller than the variance that the search
starts from; with a small ridge it would get stuck far from it.
"""

SETTLED = 0.02
"""Largest error of a correlation, in units of its own sampling error, at which there is nothing left to do."""

PROPOSALS, LEAST_PASSES, MOST_PASSES = 60_000_000, 4, 400
"""Exchanges tried at most, in passes over all cells; many rows need few passes, as many exchanges help a sum."""

WIDE = 13
"""Columns from which on fewer exchanges are tried: the work for each grows with the square of their number."""

STALLED, PATIENCE = 0.9, 40
"""The search ends if no layer's loss is below this share of what it was so many passes ago."""

ROWS_PER_COLUMN = 2
"""Rows that a column must have for exchanges: the moments of all pairs of columns would else be more sums than the
records can hide."""

BLOCK = 4_096
"""Rows that exchange values among themselves: their features fit in the cache."""

EMPTY: Array = np.empty(0)
LAYERS = 4
EMPHASIS = np.array([6.0, 1.0, 1.0, 1.0])
"""How much the layers count: covariances are what most analyses are made of."""


@dataclass(frozen=True)
class Settled:
    """How near the arrangement came: largest difference of correlations and of rank correlations."""

    correlation: float
    rank_correlation: float


def mapped(columns: list[Array], marginals: Sequence[Marginal]) -> list[Array]:
    """The values of the marginals in the order of the columns, in their place."""
    in_threads([partial(m.put_in_order_of, c) for m, c in zip(marginals, columns, strict=True)])
    return columns


def arrange(
    columns: list[Array], marginals: Sequence[Marginal], original: Microdata, present: Mask | None, stream: Stream
) -> tuple[list[Array], Settled | None]:
    """The values of the marginals in an order that starts from that of the `columns`, which are used up.

    `original` has public columns, which stay, and the confidential ones (without holes) whose moments are the target.
    With too many columns for its rows it stays with the first order, and how near that comes is not measured.
    """
    if len(original.names) * ROWS_PER_COLUMN > original.count:
        return mapped(columns, marginals), None
    search = _ExchangeSearch(original, present)
    for number in range(ROUNDS + 1):
        if number and not calibrate(columns, original):
            break
        mapped(columns, marginals)
    columns[:0] = original.values.columns[: original.public]
    features = search.features(columns)
    settled = search.run(features, stream)
    ranks = features[:, 1, search.fixed :].T
    return in_threads([partial(m.in_order_of, r) for m, r in zip(marginals, ranks, strict=True)]), settled


def calibrate(columns: Sequence[Array], original: Microdata) -> bool:
    """Give the columns the moments of the original by a linear map, in place; False if they have become collinear."""
    public, weights, count = original.public, original.weights, original.count
    if is_wide(count, len(columns)):
        return False  # more columns than dimensions are collinear
    now = Matrix([*original.values.columns[:public], *columns])
    target = moments(original.pieces, count, weights=weights)
    fix = correction(moments(now.piece, count, weights=weights), target, public, list(range(len(columns))))
    if not np.isfinite(fix.condition):
        return False
    for piece in (piece for pieces in segments(count, len(now.columns)) for piece in pieces):
        moved = fix.matrix.T @ now.piece(piece)
        for column, values, constant in zip(columns, moved, fix.constant, strict=True):
            column[piece] = values + constant
    return True


class _ExchangeSearch:
    """Exchanges towards the second moments of the original, in four layers."""

    def __init__(self, original: Microdata, present: Mask | None) -> None:
        self.count, self.public = original.count, original.public
        weights = np.ones(original.count) if original.weights is None else original.weights
        self.weights = weights / weights.sum()
        self.present = present
        width = len(original.names) - original.public
        self.marks = np.empty((0, width), np.uint8) if present is None else np.ascontiguousarray(present, np.uint8)
        self.anchors = self._anchors(original.weights is not None)
        self.fixed = len(self.anchors) + original.public
        features = self.features(list(original.values.columns))
        self.fitted = self._fitted(features)
        self.target = self._second_moments(features)
        del features
        ridge = (RIDGE if original.weights is None else WEIGHTED_RIDGE) * np.eye(self.target.shape[1])
        self.inverse = np.ascontiguousarray(np.linalg.inv(self.target + ridge))

    def _anchors(self, weighted: bool) -> list[Array]:
        """Columns that stay, in addition to the public ones, and whose moments with the others are means.

        With weights an exchange moves the mean; a column of ones makes it one of the moments. Where cells are missing,
        an indicator of them makes the mean over complete pairs one; but the moments of few gaps are those records.
        """
        anchors = [np.ones(self.count)] if weighted else []
        if self.present is not None:
            there = np.count_nonzero(self.present, axis=0)
            gaps = self.present[:, np.minimum(there, self.count - there) >= FEWEST_RECORDS]
            anchors += [np.asarray(_standardised(column.astype(np.float64))) for column in gaps.T]
        return anchors

    def _fitted(self, features: NDArray[np.float32]) -> Mask:
        """Between which columns moments are fitted to, anchors among them.

        Those with enough complete pairs, and of columns that more than a few records have another value in: the
        moments of a rare flag are the records that have it. Sums of squares, squared, over those of fourth powers
        are the number of such records, as the ranks have it.
        """
        least = min(FEWEST_RECORDS, self.count)
        squares, fourths = (np.einsum("ij->j", features[:, 1].astype(np.float64) ** power) for power in (2, 4))
        many = np.square(squares) >= 0.9 * least * fourths
        enough: Mask = np.outer(many, many)
        if self.present is not None:
            there = np.ones(features.shape[::2])
            there[:, -self.present.shape[1] :] = self.present
            enough &= there.T @ there >= least
        return enough

    def features(self, columns: list[Array]) -> NDArray[np.float32]:
        """Rows x layers x columns: values, ranks, their squares and their cubes, each with mean 0 and variance 1.

        The list is emptied meanwhile: a large table has no room for the columns and their features. A missing cell
        has nothing but zeros, so that second moments are those over complete pairs.
        """
        first, width = len(self.anchors), len(self.anchors) + len(columns)
        out = np.empty((self.count, LAYERS, width), dtype=np.float32)
        for place, anchor in enumerate(self.anchors):
            out[:, :, place] = anchor[:, None]
        in_threads([partial(self._fill, out, first + j, columns, j) for j in range(len(columns))])
        return out

    def _fill(self, out: NDArray[np.float32], place: int, columns: list[Array], j: int) -> None:
        """The layers of a column, which is taken from the list."""
        column, columns[j] = columns[j], EMPTY
        there = None if self.present is None or j < self.public else self.present[:, j - self.public]
        if there is None or there.all():
            for layer, values in enumerate(_layers(column)):
                out[:, layer, place] = values
            return
        out[:, :, place] = 0.0
        for layer, values in enumerate(_layers(column[there])):
            out[there, layer, place] = values

    def run(self, features: NDArray[np.float32], stream: Stream) -> Settled:
        """Pass after pass until the errors are settled, or no longer fall."""
        from microveil.restore._arrange_kernels import exchange

        width = features.shape[2]
        proposals = PROPOSALS * min(1.0, (WIDE / width) ** 2)
        passes = int(np.clip(proposals // (self.count * (width - self.fixed)), LEAST_PASSES, MOST_PASSES))
        losses: list[Array] = []
        for number in range(passes):
            error = np.where(self.fitted, self._second_moments(features) - self.target, 0.0)
            gradient = self.inverse @ error @ self.inverse
            losses.append(np.einsum("lij,lij->l", gradient, error))
            stalled = number >= PATIENCE and (losses[-1] > STALLED * losses[-1 - PATIENCE]).all()
            if stalled or self._largest(error).max() <= SETTLED / np.sqrt(self.count):
                break
            seed = stream.generator(number).integers(2**63)
            exchange(features, self.weights, self.marks, self.fixed, (self.inverse, gradient, EMPHASIS), BLOCK, seed)
        largest = self._largest(np.where(self.fitted, self._second_moments(features) - self.target, 0.0))
        return Settled(float(largest[0]), float(largest[1]))

    def _largest(self, error: Array) -> Array:
        """The largest error between a moving column and any other, layer by layer."""
        off_diagonal = np.abs(error[:, self.fixed :]) * ~np.eye(error.shape[1], dtype=bool)[self.fixed :]
        largest: Array = off_diagonal.max(axis=(1, 2), initial=0.0)
        return largest

    def _second_moments(self, features: NDArray[np.float32]) -> Array:
        """Layers x columns x columns, added up in double precision."""
        width = features.shape[2]
        total = np.zeros((LAYERS, width, width))
        for start in range(0, self.count, BLOCK):
            piece = features[start : start + BLOCK].astype(np.float64).transpose(1, 2, 0)
            total += (piece * self.weights[start : start + BLOCK]) @ piece.transpose(0, 2, 1)
        return total


def _layers(column: Array) -> Iterator[Array | float]:
    """The values, the ranks as levels in (-1/2, 1/2), their squares, and their cubes without the linear part."""
    yield _standardised(column)
    level = mid_ranks(column)
    level -= (column.size + 1) / 2
    level /= column.size
    yield _standardised(level)
    squares = np.square(level)
    yield _standardised(squares)
    # E[u^4] / E[u^2] = 0.15 for u uniform on (-1/2, 1/2).
    yield _standardised(np.multiply(level, squares - 0.15, out=squares))


def _standardised(values: Array) -> Array | float:
    """Mean 0 and variance 1. A column of two values has no square of its own: its layer stays empty."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 4 * np.finfo(float).eps * max(abs(low), abs(high)):
        return 0.0
    return (values - float(values.mean())) / float(values.std())
