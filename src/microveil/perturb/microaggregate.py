"""Microaggregation: similar records become their mean, which noise may blur by what the means have lost."""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.compiled import compiled_late
from microveil.core.errors import DataError, ParameterError
from microveil.core.keys import Codes
from microveil.core.linalg import sorted_eigen
from microveil.core.moments import moments
from microveil.core.threads import in_threads
from microveil.core.tolerances import FINE_ROUND_OFF
from microveil.perturb.base import Columns, JointNormalPerturbation, JointPerturbation, Labels, with_covariance

Numbers = NDArray[np.int64]
"""Groups by number, or the sizes of groups, or rows."""

Grouping = Literal["mdav", "univariate", "projection"]
Sizes = Literal["equal", "minimum"]

SMALL = 30_000_000
"""Cells up to which records are searched as they are, as the compiled search takes half a second to load."""

SHORT = 100_000
"""Steps along a line up to which the loop runs as it is, for the same reason."""

MOST_MIXED = 20_000_000_000
"""Cells that are compared at most, of records with labels, for which there are no bounds."""

LEAF = 128
"""Records up to which the compiled search looks at all of them."""

GroupSize = Annotated[int, Field(ge=2, description="records of a group, at least")]


class Microaggregate(JointPerturbation):
    """Replace the values of each record by the means of its group of similar records.

    Groups are made column by column, from neighbours in sorted order ("univariate"); or of whole records, that are
    neighbours along the first principal component of the standardised columns ("projection") or near each other in all
    columns ("mdav": see `similar_records`). Means come back exactly, variances shrink by what varied within the groups,
    and nothing is random. With survey weights the means of the groups are weighted, so that the weighted means come
    back; the groups still count records, as it is records that hide in them. Labels take part in "mdav": distances are
    Gower's then, and the most frequent label of a group takes the place of the others.
    """

    reference: ClassVar[str] = (
        "Defays and Nanopoulos (1993); Domingo-Ferrer and Mateo-Sanz (2002); Hansen and Mukherjee (2003); "
        "Domingo-Ferrer and Torra (2005)"
    )
    keeps_mean: ClassVar[bool] = True
    keeps_variance: ClassVar[bool] = False
    random: ClassVar[bool] = False
    retention_varies: ClassVar[bool] = True  # with how similar similar records are
    masks_labels: ClassVar[bool] = True

    group_size: GroupSize = 3
    grouping: Grouping = Field(
        default="univariate",
        description="who is similar: records near each other in all columns (mdav), neighbours in each column by "
        "itself (univariate), or neighbours along the first principal component (projection)",
    )
    sizes: Sizes = Field(
        default="equal",
        description="sizes of groups along a column or component: equal, the last taking the remainder, or those "
        "of at least group_size within which values vary least; mdav makes equal ones in any case",
    )

    def mask_labels(self, labels: Labels) -> Codes:
        """The most frequent label of the group, where there are no numbers."""
        self._check_mixed()
        groups = similar_mixed_records(np.empty((0, len(labels.codes))), labels.codes, self.group_size)
        return group_modes(labels.codes, groups)

    def _check_mixed(self) -> None:
        if self.grouping != "mdav":
            raise ParameterError(f"grouping: '{self.grouping}' orders numbers, and labels have no order", "use 'mdav'")

    def apply_together(self, columns: Columns) -> Array:
        """The means of the group, for each of its records; of labels, the most frequent ones."""
        values, weights = columns.values, columns.weights
        if columns.labels is not None:
            self._check_mixed()
            groups = similar_mixed_records(values, columns.labels.codes, self.group_size)
            columns.masked.append(group_modes(columns.labels.codes, groups))
            return group_means(values, groups, weights)
        if self.grouping == "univariate":
            tasks = [partial(self._by_itself, column, weights) for column in values]
            return np.array(in_threads(tasks, small=values.size <= SHORT))
        if self.grouping == "projection":
            return group_means(values, self._along(first_component(values)), weights)
        return group_means(values, similar_records(values, self.group_size), weights)

    def _by_itself(self, column: Array, weights: Array | None) -> Array:
        new: Array = group_means(column[None], self._along(column), weights)[0]
        return new

    def _along(self, line: Array) -> Numbers:
        """The group of each record, where neighbours on a line make groups."""
        order = np.argsort(line, kind="stable")
        sizes = (group_sizes if self.sizes == "equal" else best_sizes)(line[order], self.group_size)
        numbers = np.empty(line.size, dtype=np.int64)
        numbers[order] = np.repeat(np.arange(sizes.size), sizes)
        return numbers

    def check(self, rows: int, columns: int) -> None:  # noqa: ARG002 - a group is of rows
        """There must be rows enough for one group."""
        check_group_size(self.group_size, rows)


def check_group_size(group_size: int, rows: int) -> None:
    """There must be rows enough for one group."""
    if group_size > rows:
        raise ParameterError(f"group_size: {group_size} records asked, but there are {rows} rows", "use smaller groups")


def group_means(values: Array, numbers: Numbers, weights: Array | None) -> Array:
    """The means of the groups, in the place of each value of their records; `values` is column x row."""
    size = np.bincount(numbers, weights)
    means: Array = np.empty_like(values)
    for column, new in zip(values, means, strict=True):
        total = np.bincount(numbers, column if weights is None else weights * column)
        np.take(total / size, numbers, out=new)
    return means


def group_modes(codes: Codes, numbers: Numbers) -> Codes:
    """The most frequent label of each group, in the place of those of its records; of equally frequent ones the first.

    `codes` are records x columns, -1 where a cell is missing, which is a level, too.
    """
    modes = np.empty_like(codes)
    for j, column in enumerate(codes.T):
        width = int(column.max(initial=0)) + 2
        cells, counts = np.unique(numbers * width + column + 1, return_counts=True)
        best = cells[np.lexsort((cells, -counts, cells // width))]
        first = np.unique(best // width, return_index=True)[1]
        modes[:, j] = (best[first] % width - 1)[numbers]
    return modes


# --- Along a line


def group_sizes(line: Array, group_size: int) -> Numbers:
    """Sizes of groups along a line: all equal but the last, which takes the remainder."""
    sizes = np.full(line.size // group_size, group_size, dtype=np.int64)
    sizes[-1] += line.size % group_size
    return sizes


def best_sizes(line: Array, group_size: int) -> Numbers:
    """Sizes of groups along a sorted line, `group_size` at least, within which values vary least.

    Groups of twice the size and more are never better than two, so a cut of the line is a path that goes from border to
    border in steps of a group, and the best is the shortest one (Hansen and Mukherjee 2003).
    """
    rows, borders = line.size, [line.size]
    first, spread = [0] * (rows + 1), [0.0] + [math.inf] * rows
    if rows * group_size <= SHORT:
        shortest_path(line.tolist(), group_size, spread, first)
    else:
        starts = np.array(first, dtype=np.int64)
        fast = compiled_late(shortest_path, "void(float64[::1], int64, float64[::1], int64[::1])")
        fast(line, group_size, np.array(spread), starts)
        first = starts.tolist()
    while borders[-1] > 0:
        borders.append(first[borders[-1]])
    return np.diff(borders[::-1])


def shortest_path(
    line: Sequence[float], group_size: int, spread: MutableSequence[float], first: MutableSequence[int]
) -> None:
    """Fill `first`: where the last group begins if the best groups of a line end at a border.

    `spread` comes filled with infinity, but for a zero at the first border: it is the sum of squares about the means of
    the groups up to a border. The same lines run as they are on lists, and compiled on arrays.
    """
    for start in range(len(line) - group_size + 1):
        if spread[start] == math.inf:
            continue
        mean, squares = 0.0, 0.0
        for end in range(start, min(start + 2 * group_size - 1, len(line))):
            # Added one by one about the mean so far: sums of squares of the whole line have lost these digits.
            size = end - start + 1
            step = line[end] - mean
            mean += step / size
            squares += step * (line[end] - mean)
            if size >= group_size and spread[start] + squares < spread[end + 1]:
                spread[end + 1] = spread[start] + squares
                first[end + 1] = start


def first_component(values: Array) -> Array:
    """The first principal component of the standardised columns."""
    standard, _, _ = _standardised(values)
    return _first_axis(standard) @ standard


# --- In all columns


def similar_records(values: Array, group_size: int) -> Numbers:
    """The group of each record, by MDAV (maximum distance to average vector); `values` is column x row.

    The record farthest from the mean of all that have no group yet makes a group with its nearest neighbours, and so
    does the one farthest from that record, as long as three groups' worth of records are left; of two groups' worth
    only the first does, and the rest is the last group (Domingo-Ferrer and Torra 2005). Squared differences count as
    shares of the column's variance. Of records equally far or near, the last one comes first, as in sdcMicro.
    """
    # A power of two for a unit loses no digit, and squares stay within range.
    _, exponents = np.frexp(np.abs(values).max(axis=1))
    values = np.ascontiguousarray(np.ldexp(values, -exponents[:, None]))
    columns, rows = values.shape
    search = _plainly if rows * rows // group_size * columns <= SMALL else _by_tree
    return search(values, group_size)


def _standardised(values: Array) -> tuple[Array, Array, Array]:
    """Standardised columns, with the means and the inverse variances; a constant column counts for nothing."""
    mean, variance = values.mean(axis=1), values.var(axis=1)
    varies = (np.ptp(values, axis=1) > 0) & (variance > np.finfo(float).tiny)
    weight = np.divide(1.0, variance, out=np.zeros_like(variance), where=varies)
    return (values - mean[:, None]) * np.sqrt(weight)[:, None], mean, weight


def _first_axis(standard: Array) -> Array:
    """The first eigenvector of the correlations."""
    _, vectors = sorted_eigen(standard @ standard.T / standard.shape[1])
    return np.ascontiguousarray(vectors[:, 0])


def _plainly(values: Array, group_size: int) -> Numbers:
    """MDAV by looking at all records each time."""
    _, _, weight = _standardised(values)
    numbers = np.full(values.shape[1], -1, dtype=np.int64)
    left, number = np.arange(values.shape[1]), 0

    def distances(point: Array) -> Array:
        distance = np.zeros(left.size)
        for column, centre, share in zip(values[:, left], point, weight, strict=True):
            distance += np.square(column - centre) * share  # one by one, as the compiled search adds them up
        return distance

    def farthest(point: Array) -> Array:
        return values[:, left[left.size - 1 - np.argmax(distances(point)[::-1])]]

    while left.size >= 2 * group_size:
        # Sums without round-off: whichever way records went, what is left has the same mean.
        ends = [farthest(np.array([math.fsum(column) for column in values[:, left].tolist()]) / left.size)]
        if left.size >= 3 * group_size:
            ends.append(farthest(ends[0]))
        for end in ends:
            distance = distances(end)
            limit = np.partition(distance, group_size - 1)[group_size - 1]
            near = distance < limit
            near[np.flatnonzero(distance == limit)[np.count_nonzero(near) - group_size :]] = True
            numbers[left[near]], left, number = number, left[~near], number + 1
    numbers[left] = number
    return numbers


def similar_mixed_records(values: Array, codes: Codes, group_size: int) -> Numbers:
    """MDAV on numbers (column x row) and labels (row x column) by Gower's distance: the mean, over all columns, of the
    difference as a share of the range, and of whether labels differ. The centre has means, and most frequent labels.
    """
    rows = len(codes)
    if rows * rows // group_size * (len(values) + codes.shape[1]) > MOST_MIXED:
        raise DataError(f"{rows} records are too many to compare their labels with each other", "use strata, or veil")
    low, span = values.min(axis=1, keepdims=True), np.ptp(values, axis=1, keepdims=True)
    scaled = (values - low) / np.where(span > 0, span, 1.0)
    labels, one = np.ascontiguousarray(codes.T), np.zeros(rows, dtype=np.int64)
    numbers, left, number = np.full(rows, -1, dtype=np.int64), np.arange(rows), 0

    def distances(point: Array, own: Codes) -> Array:
        apart: Array = np.abs(scaled[:, left] - point[:, None]).sum(axis=0)
        apart += (labels[:, left] != own[:, None]).sum(axis=0)
        return apart

    def farthest(point: Array, own: Codes) -> tuple[Array, Codes]:
        row = left[left.size - 1 - int(np.argmax(distances(point, own)[::-1]))]
        return scaled[:, row], labels[:, row]

    while left.size >= 2 * group_size:
        ends = [farthest(scaled[:, left].mean(axis=1), group_modes(codes[left], one[: left.size])[0])]
        if left.size >= 3 * group_size:
            ends.append(farthest(*ends[0]))
        for end in ends:
            near = np.sort(np.argsort(distances(*end), kind="stable")[:group_size])
            numbers[left[near]], left, number = number, np.delete(left, near), number + 1
    numbers[left] = number
    return numbers


def _by_tree(values: Array, group_size: int) -> Numbers:
    """The same by a compiled search that knows from bounds where not to look."""
    from microveil.perturb import _mdav_kernels as kernels  # numba is slow to import: only for large tables

    standard, mean, weight = _standardised(values)
    axis = _first_axis(standard)
    along = axis @ standard
    standard -= np.outer(axis, along)
    places = np.array([along, np.sqrt(np.square(standard, out=standard).sum(axis=0))])
    del standard
    columns, rows = values.shape
    leaves = _leaves(places, np.arange(rows), max(math.ceil(math.log2(rows / LEAF)), 0))
    borders = np.cumsum([0, *(leaf.size for leaf in leaves)])
    # Bounds on distances are loosened by many times their round-off.
    slack = FINE_ROUND_OFF * (columns + 10)
    margins = (slack, float(slack * np.abs(places).max()))
    numbers = np.full(rows, -1, dtype=np.int64)
    kernels.group(values, places, (weight, mean, axis), margins, (np.concatenate(leaves), borders), group_size, numbers)
    return numbers


def _leaves(places: Array, rows: Numbers, depth: int) -> list[Numbers]:
    """The rows, halved so many times, each time where their places spread most."""
    if depth == 0:
        return [rows]
    here = places[:, rows]
    half = rows.size // 2
    order = np.argpartition(here[here.var(axis=1).argmax()], half)
    return [*_leaves(places, rows[order[:half]], depth - 1), *_leaves(places, rows[order[half:]], depth - 1)]


class MicroaggregateNoise(JointNormalPerturbation):
    """Replace records by the means of groups of similar ones (MDAV), and add normal noise of the covariance lost by it.

    Oganian and Karr (2006): the noise is N(0, S_X - S_M), with S_X the covariance of the data and S_M that of the
    means. What is lost is how values vary about the means of their groups, so it is a covariance itself, of those
    differences. Means and covariances come back on average; the noise is not given a mean of exactly zero. With survey
    weights the means of the groups and all covariances are weighted; the groups count records.
    """

    reference: ClassVar[str] = "Oganian and Karr (2006)"
    retention_varies: ClassVar[bool] = True  # with how similar similar records are

    group_size: GroupSize = 3

    @property
    def keeps_covariance(self) -> bool:
        """The noise has the covariance that is missing."""
        return True

    def apply_together(self, columns: Columns) -> Array:
        """Means of groups + noise."""
        values, weights = columns.values, columns.weights
        means = group_means(values, similar_records(values, self.group_size), weights)
        differences = values - means
        lost = moments(lambda piece: differences[:, piece], values.shape[1], weights=weights).covariance
        # The share of the variance of independent draws that shows about their own mean: (n - 1) / n without weights.
        hidden = 1 / values.shape[1] if weights is None else np.square(weights).sum() / weights.sum() ** 2
        return means + with_covariance(self.deviates(columns), lost / (1 - float(hidden)))

    def check(self, rows: int, columns: int) -> None:
        """There must be rows enough for one group, and given draws must fit."""
        check_group_size(self.group_size, rows)
        super().check(rows, columns)
