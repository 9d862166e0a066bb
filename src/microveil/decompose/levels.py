"""Two levels of a regression: within clusters of records, and across them (Langsrud 2019, §6).

Y = fit within + fit across + between + within, four orthogonal parts. The first is the regression on X_A inside each
cluster; the second that on X_B, made orthogonal to it, over all records; `between` is what slopes of X_B of their own
would add in each cluster, and `within` what is left then. The same split serves the data and drawn values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.factor import generalised_qr, without_round_off

Rows = NDArray[np.intp]


@dataclass(frozen=True, repr=False)
class Parts:
    """The four parts of some columns, rows x columns each: Ŷ1, Ŷ2, Ê3 and Ê4 of the paper (eq. 19)."""

    fit_within: Array
    fit_across: Array
    between: Array
    within: Array

    @property
    def fit(self) -> Array:
        """What the regressions explain, which is kept as it is."""
        return self.fit_within + self.fit_across

    @property
    def residuals(self) -> Array:
        """What they leave, which is replaced."""
        return self.between + self.within


@dataclass(frozen=True, repr=False)
class Bases:
    """Groups of records, with an orthonormal basis in each of what is regressed on there."""

    groups: Sequence[Rows]
    bases: Sequence[Array]

    def fit(self, columns: Array) -> Array:
        """What the regressions explain of some columns."""
        fitted = np.empty_like(columns)
        for rows, basis in zip(self.groups, self.bases, strict=True):
            fitted[rows] = basis @ (basis.T @ columns[rows])
        return fitted

    def leverage(self, count: int) -> Array:
        """The share of each record's own values in its fit."""
        leverage = np.empty(count)
        for rows, basis in zip(self.groups, self.bases, strict=True):
            leverage[rows] = np.square(basis).sum(axis=1)
        return leverage


@dataclass(frozen=True, repr=False)
class Levels:
    """Bases of what is regressed on: X_A in pieces of clusters and in clusters, X_2 in clusters and over all records.

    Without pieces a cluster is the only piece of itself, and has all of X_A there.
    """

    pieces: Bases
    local: Bases
    slopes: Bases
    across: Array

    @property
    def clusters(self) -> Sequence[Rows]:
        """The records of each cluster."""
        return self.slopes.groups

    def split(self, columns: Array) -> Parts:
        """The four parts of some columns (steps 2-5, 7 and 8 of the algorithm)."""
        fit_within = self.pieces.fit(columns) + self.local.fit(columns)
        extended = self.slopes.fit(columns)
        fit_across = self.across @ (self.across.T @ columns)
        between = without_round_off(extended - fit_across, columns)
        within = _without_round_off(self.clusters, columns - fit_within - extended, columns)
        return Parts(fit_within, fit_across, between, within)

    @property
    def leverage(self) -> Array:
        """The share of each record's own values in its fit."""
        count = self.across.shape[0]
        own: Array = self.pieces.leverage(count) + self.local.leverage(count) + np.square(self.across).sum(axis=1)
        return own

    @property
    def free(self) -> list[int]:
        """How many dimensions each cluster has left for its residuals: leverages add up to those that are taken."""
        count = self.across.shape[0]
        taken = self.pieces.leverage(count) + self.local.leverage(count) + self.slopes.leverage(count)
        return [rows.size - round(float(taken[rows].sum())) for rows in self.clusters]


def fit_levels(
    clusters: Sequence[Rows],
    local: Array,
    across: Array,
    pieces: Sequence[Rows] | None = None,
    local_pieces: Array | None = None,
) -> Levels:
    """Bases of `local` and of `across` (rows x columns), the latter without what the former explains (steps 2 and 3).

    The constant is in `local` by itself. Where clusters have `pieces`, each piece has a constant of its own, and slopes
    of its own on `local_pieces` (modification e).
    """
    nothing = np.empty((local.shape[0], 0))
    if pieces is None:
        pieces, local_pieces, local = clusters, local, nothing
    inner = nothing if local_pieces is None else local_pieces
    first = Bases(pieces, [_with_constant(inner[rows]) for rows in pieces])
    second = _bases(clusters, _left(clusters, local, first))
    left = _left(clusters, across, first, second)
    return Levels(first, second, _bases(clusters, left), generalised_qr(left).scores)


def crossed(columns: Array, groups: NDArray[np.intp]) -> Array:
    """Each column once for each group, and zero outside of it."""
    marks = np.eye(int(groups.max()) + 1)[groups]
    return np.hstack([columns * mark[:, None] for mark in marks.T]) if columns.size else np.empty((groups.size, 0))


def _with_constant(columns: Array) -> Array:
    """A basis of the constant and of some columns, whose means are taken off first: they can be large."""
    constant = np.full((columns.shape[0], 1), 1 / np.sqrt(columns.shape[0]))
    if not columns.size:
        return constant
    centred = without_round_off(columns - columns.mean(axis=0), columns)
    return np.hstack([constant, generalised_qr(centred - constant @ (constant.T @ centred)).scores])


def _bases(groups: Sequence[Rows], columns: Array) -> Bases:
    return Bases(groups, [generalised_qr(columns[rows]).scores for rows in groups])


def _left(clusters: Sequence[Rows], columns: Array, *fitted: Bases) -> Array:
    """What fits inside clusters leave of some columns."""
    left = columns
    for _ in range(2 if columns.size else 0):  # once more: what the first pass leaves is round-off of large columns
        left = left - np.sum([bases.fit(left) for bases in fitted], axis=0)
    return _without_round_off(clusters, left, columns)


def _without_round_off(clusters: Sequence[Rows], residuals: Array, columns: Array) -> Array:
    cleaned = np.empty_like(residuals)
    for rows in clusters if columns.size else ():
        cleaned[rows] = without_round_off(residuals[rows], columns[rows])
    return cleaned
