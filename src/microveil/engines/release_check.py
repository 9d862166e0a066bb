"""What a release really kept and really changed, measured on the released values themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.moments import Moments, PairMoments, add_up, largest_gap, moments, pair_moments, pair_sums
from microveil.core.table import Matrix, Microdata, RowsFirst, rows_by_group
from microveil.core.threads import Room, segments
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.measures.utility.label_tables import MOST_CELLS, group_sums


@dataclass(frozen=True, repr=False)
class Evidence:
    """Errors are in standard deviations: the worst mean, and the worst covariance over sd x sd.

    Covariances with public columns count too; `correlation` (with the original) and `changed` (share of cells) are
    of the confidential columns. `same_records` is the share of records that came back as they were in all of these.
    """

    mean_error: float
    covariance_error: float
    correlation: Array
    changed: Array
    same_records: float


def evidence(original: Microdata, released: Sequence[Array], present: Mask | None, before: Moments) -> Evidence:
    """Compare released columns with the confidential ones, cell by cell and moment by moment.

    `before` has the moments of the original; where cells are missing (`present`) they are found anew. With strata,
    the moments are those of each stratum, and the errors the worst of all.
    """
    overall = _evidence(original, released, present, before)
    if original.strata is None:
        return overall
    parts = []
    for rows in rows_by_group(original.strata):
        holes = None if present is None else present[rows]
        part = original.take(rows)
        of_part = moments(part.pieces, part.count, weights=part.weights)
        parts.append(_evidence(part, [column[rows] for column in released], holes, of_part))
    return replace(
        overall,
        mean_error=max(part.mean_error for part in parts),
        covariance_error=max(part.covariance_error for part in parts),
    )


def _evidence(original: Microdata, released: Sequence[Array], present: Mask | None, before: Moments) -> Evidence:
    if present is not None:
        return _evidence_with_holes(original, released, present)
    if before.deviations is not None:
        return _evidence_of_rows(original, np.array(released), before)
    weights, public, width = original.weights, original.public, len(original.names)
    old_table, new_table = original.confidential, Matrix([*original.values.columns[:public], *released])
    shift, tolerance = before.shift, TEXT_ROUND_OFF * before.sd[public:, None]

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        same, firsts, second = 0.0, np.zeros((3, width - public)), np.zeros((width - public, width))
        rooms = [Room(rows, pieces) for rows in (width - public, width, width - public)]
        for piece in pieces:
            old = old_table.less(piece, shift[public:], rooms[0].of(piece))
            new = new_table.less(piece, shift, rooms[1].of(piece))
            weight = None if weights is None else weights[piece]
            parts = _compared(old, new, tolerance, weight, rooms[2].of(piece))
            same, firsts, second = same + parts[0], firsts + parts[1], second + parts[2]
        return same, firsts, second

    sums_of_all = add_up([partial(sums, pieces) for pieces in segments(original.count, width)])
    return _concluded(original, before, *sums_of_all)


def _evidence_of_rows(original: Microdata, released: Array, before: Moments) -> Evidence:
    """The same for a wide table, whose covariances are too many to be held; `released` has columns x rows."""
    public, sd = original.public, before.sd
    columns = Matrix([*original.values.columns[:public], *released])
    after = moments(columns.piece, original.count, weights=original.weights, shift=before.shift)
    if before.deviations is None or after.deviations is None:
        raise TypeError("rows are compared where they stand for products")
    across = np.einsum("ij,ij->i", before.deviations[public:], after.deviations[public:]) / before.weight
    gap = np.abs(released - original.confidential.piece(slice(0, original.count)))
    moved = gap > TEXT_ROUND_OFF * sd[public:, None]
    mean, correlation = _scaled((after.offset - before.offset)[public:], sd, after.sd, across, public)
    covariance = largest_gap(after, before, sd)
    return Evidence(mean, covariance, correlation, moved.mean(axis=1), float(np.mean(~moved.any(axis=0))))


@dataclass(frozen=True, repr=False)
class RemoteComparison:
    """The same for rows that are elsewhere: sums over some rows, which can be added up, and what all of them say."""

    original: Microdata
    before: Moments
    gaps: bool = False
    """Are cells missing (NaN)? Moments are of complete pairs then, and `before` has them with all cells filled."""

    @property
    def of_rows(self) -> bool:
        """Are there fewer rows than columns, so that all of them serve better than sums of their products?"""
        return self.before.deviations is not None

    def sums(self, cells: Array, made: Array, rows: slice) -> Array:
        """What the cells of some rows and the released confidential ones that were `made` of them add."""
        whole = (made == np.round(made)) | np.isnan(made)
        odd = [np.count_nonzero(made < 0, axis=1), np.count_nonzero(~whole, axis=1)]
        if self.gaps:
            return np.concatenate([*self._sums_of_pairs(cells, made, rows), *odd])
        if self.of_rows:
            return np.concatenate(odd).astype(np.float64)
        public, shift = self.original.public, self.before.shift[:, None]
        old, new = cells[public:] - shift[public:], np.vstack([cells[:public], made]) - shift
        weights = None if self.original.weights is None else self.original.weights[rows]
        tolerance = TEXT_ROUND_OFF * self.before.sd[public:, None]
        same, firsts, second = _compared(old, new, tolerance, weights, np.empty_like(old))
        return np.concatenate([[same], firsts.ravel(), second.ravel(), *odd])

    def _sums_of_pairs(self, cells: Array, made: Array, rows: slice) -> list[Array]:
        """The same for rows of which cells are missing; arguments as in `sums`."""
        public, weights = self.original.public, self.original.weights
        there, tolerance = ~np.isnan(cells[public:]), TEXT_ROUND_OFF * self.before.sd[public:, None]
        moved = there & (np.abs(made - cells[public:]) > tolerance)
        same = there.any(axis=0) & ~moved.any(axis=0)
        both = np.vstack([cells, cells[:public], made]).T
        shift = np.tile(self.before.mean, 2)
        pairs = pair_sums(both, ~np.isnan(both), shift, None if weights is None else weights[rows])
        return [np.array([np.count_nonzero(same)]), moved.sum(axis=1), there.sum(axis=1), pairs.ravel()]

    def conclusion(self, sums: Array, made: Array | None = None) -> tuple[Evidence, Array]:
        """The evidence, and for each confidential column how many new cells are below zero and how many not whole.

        Comparisons `of_rows` need all that was `made`, columns x rows.
        """
        width = len(self.original.names)
        own = width - self.original.public
        if self.gaps:
            same, moved, there, pairs, odd = np.split(sums, np.cumsum([1, own, own, 12 * width * width]))
            both = PairMoments.of_sums(pairs.reshape(3, 2 * width, 2 * width), np.tile(self.before.mean, 2))
            changed, share = moved / np.maximum(there, 1), float(same[0]) / self.original.count
            return _judged_pairs(both, changed, share, self.original.public), odd.reshape(2, own)
        if self.of_rows and made is not None:
            return _evidence_of_rows(self.original, made, self.before), sums.reshape(2, own)
        same, firsts, second, odd = np.split(sums, np.cumsum([1, 3 * own, own * width]))
        found = _concluded(self.original, self.before, same[0], firsts.reshape(3, own), second.reshape(own, width))
        return found, odd.reshape(2, own)


def _compared(
    old: Array, new: Array, tolerance: Array, weights: Array | None, room: Array
) -> tuple[float, Array, Array]:
    """Some rows before and after, both less a shift: records that came back, sums per column, and products.

    Public columns come first in `new`. They are the same before and after: only what the others share with them can
    have changed.
    """
    own = new[new.shape[0] - old.shape[0] :]
    gap = np.abs(np.subtract(own, old, out=room), out=room)
    moved = gap > tolerance
    same, changed = float(np.count_nonzero(~moved.any(axis=0))), np.count_nonzero(moved, axis=1)
    weighted = own if weights is None else np.multiply(own, weights, out=room)
    firsts = np.array([weighted.sum(axis=1), np.einsum("ij,ij->i", weighted, old), changed])
    return same, firsts, weighted @ new.T


def _concluded(original: Microdata, before: Moments, same: float, firsts: Array, second: Array) -> Evidence:
    """What the sums over all rows say."""
    public = original.public
    offset, earlier = firsts[0] / before.weight, before.offset[public:]
    across = firsts[1] / before.weight - offset * earlier
    after = before.covariance.copy()
    after[public:] = second / before.weight - np.outer(offset, np.concatenate([before.offset[:public], offset]))
    after[:public, public:] = after[public:, :public].T
    changed = firsts[2] / original.count
    return _judged(offset - earlier, before.covariance, after, across, changed, same / original.count, public)


def _judged(
    mean_gap: Array, before: Array, after: Array, across: Array, changed: Array, same: float, public: int
) -> Evidence:
    """The worst errors; `before` and `after` have public columns first, the others are of confidential ones alone."""
    sd, sd_after = np.sqrt(np.diagonal(before)), np.sqrt(np.clip(np.diagonal(after), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(after - before) / np.outer(sd, sd)
    worst_mean, correlation = _scaled(mean_gap, sd, sd_after, across, public)
    return Evidence(worst_mean, _worst(gap), correlation, changed, same)


def _scaled(mean_gap: Array, sd: Array, sd_after: Array, across: Array, public: int) -> tuple[float, Array]:
    """The worst error of a mean, and the correlations with the original."""
    own, own_after = sd[public:], sd_after[public:]
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(own_after > 0, across / (own * own_after), 0.0)
        return _worst(np.abs(mean_gap) / own), correlation


def _worst(errors: Array) -> float:
    """The largest; constant columns, and pairs without a common row, have no standard deviation to measure by."""
    return float(errors[np.isfinite(errors)].max(initial=0.0))


def _evidence_with_holes(original: Microdata, released: Sequence[Array], present: Mask) -> Evidence:
    public, weights = original.public, original.weights
    known = original.beside_public_cells(present)
    width = known.shape[1]
    columns = [*original.values.columns, *original.regressors.columns, *released]
    now = original.beside_public_cells(~np.column_stack([np.isnan(column[:]) for column in released]))
    both = pair_moments(RowsFirst(Matrix(columns)), np.hstack([known, now]), weights=weights)
    changed, same = np.zeros(width - public), present.any(axis=1)
    for j, (before, after) in enumerate(zip(original.confidential.columns, released, strict=True)):
        there, there_now = present[:, j], now[:, public + j]
        stays = np.abs(after[:] - before[:]) <= TEXT_ROUND_OFF * both.sd[public + j]
        changed[j] = np.count_nonzero(there & ~stays) / max(int(np.count_nonzero(there)), 1)
        same &= stays | ~(there | there_now)
    return _judged_pairs(both, changed, float(np.mean(same)), public)


def _judged_pairs(both: PairMoments, changed: Array, same: float, public: int) -> Evidence:
    """The worst errors, given the moments of complete pairs of all columns, before and after; as in `_judged`."""
    width = both.mean.size // 2
    old, new = both.covariance[:width, :width], both.covariance[width:, width:]
    mean_gap = both.mean[width:] - both.mean[:width]
    across = np.diagonal(both.covariance[:width, width:])
    return _judged(mean_gap[public:], old, new, across[public:], changed, same, public)


@dataclass(frozen=True, repr=False)
class LabelComparison:
    """How far two-way tables of labels are off, and means of groups: sums over some rows, and what all of them say.

    `sizes` are the numbers of levels, and `spreads` the standard deviations of the confidential columns, by number,
    whose means are compared. Groups of fewer records than are fitted to are left out.
    """

    sizes: Sequence[int]
    spreads: Mapping[int, float]

    def sums(self, before: Rows, old: Rows, after: Rows, new: Rows, weights: Array | None = None) -> Array:
        """What some rows add: confidential columns and labels `before` (`old`) and `after` (`new`), and `weights`."""
        found: list[NDArray[Any]]
        found = [np.bincount(codes, minlength=size) for codes, size in zip(map(_whole, old), self.sizes, strict=True)]
        for values, labels in ((before, old), (after, new)):
            codes = [_whole(of) for of in labels]
            found += [
                np.bincount(codes[a] * self.sizes[b] + codes[b], weights, self.sizes[a] * self.sizes[b])
                for a, b in self._pairs
            ]
            for j in self.spreads:
                for by, size in zip(codes, self.sizes, strict=True):
                    found += group_sums(by, values[j], size, weights)
        return np.concatenate([np.empty(0), *found])

    def errors(self, sums: Array) -> dict[str, float]:
        """Of two-way tables (total variation) and of means (standard deviations) the largest, if there are any."""
        counts, rest = np.split(sums, [sum(self.sizes)])
        large = np.split(counts >= FEWEST_RECORDS, np.cumsum(self.sizes)[:-1])
        cuts = [self.sizes[a] * self.sizes[b] for a, b in self._pairs]
        cuts += [size for _ in self.spreads for size in self.sizes for _ in range(2)]
        old, new = (np.split(side, np.cumsum(cuts)[:-1]) for side in np.split(rest, 2))
        tables = [
            float(np.abs(a / a.sum() - b / b.sum()).sum() / 2)
            for a, b in zip(old[: len(self._pairs)], new[: len(self._pairs)], strict=True)
        ]
        means, at = [], len(self._pairs)
        for spread in self.spreads.values():
            for groups in large:
                first, second = (side[at + 1][groups] / side[at][groups] for side in (old, new))
                means.append(float((np.abs(first - second) / spread).max(initial=0.0)))
                at += 2
        found = {"two-way tables": tables, "group means": means}
        return {name: max(errors) for name, errors in found.items() if errors}

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Columns of labels whose table is not too large."""
        sizes = self.sizes
        return [(a, b) for a, b in combinations(range(len(sizes)), 2) if sizes[a] * sizes[b] <= MOST_CELLS]


Rows = Sequence[Any] | Array
"""Columns of some rows."""


def _whole(codes: Any) -> NDArray[np.intp]:
    """Numbers of levels, which may be stored in fewer bytes, or as doubles."""
    return np.asarray(codes[:]).astype(np.intp)


def mean_error_within(groups: NDArray[np.intp], original: Sequence[Array], released: Sequence[Array]) -> float:
    """The largest difference of a group's mean, in standard deviations of the column; all cells must be there."""
    sizes = np.bincount(groups)
    worst = 0.0
    for old, new in zip(original, released, strict=True):
        spread = float(old.std())
        gap = np.abs(np.bincount(groups, weights=new - old) / sizes).max()
        worst = max(worst, float(gap) / spread if spread > 0 else 0.0)
    return worst


def covariance_error_within(groups: NDArray[np.intp], original: Sequence[Array], released: Sequence[Array]) -> float:
    """The largest difference of a covariance inside a group, in standard deviations of the columns over all."""
    spread = np.array([column.std() for column in original])
    spread = np.where(spread > 0, spread, 1.0)
    worst = 0.0
    for rows in rows_by_group(groups):
        old, new = (np.cov(np.array([column[rows] for column in those]), bias=True) for those in (original, released))
        worst = max(worst, float((np.abs(new - old) / np.outer(spread, spread)).max()))
    return worst
