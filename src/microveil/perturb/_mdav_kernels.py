"""The compiled search for similar records (MDAV). Importing this module imports numba and compiles or loads it.

The groups are those of a plain search through all records, bit by bit. What makes it fast is a tree that knows which
records need not be searched. It knows two numbers of each record: how far along the first principal axis it lies, and
how far it is from that axis. Let these be a and b for one record, c and d for another: their squared distance is then
at least (a - c)² + (b - d)² and at most (a - c)² + (b + d)², whatever the other dimensions are. A node of the tree
knows the range of both numbers over its records. Its leaves hold so many records that a loop over them runs at full
speed, so where the bounds help nothing, as in many independent dimensions, the search is a plain one and no slower.
"""

from __future__ import annotations

from heapq import heapreplace
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.compiled import compiled

DEEPEST = 64
"""Levels of a tree, at most."""

Numbers = NDArray[np.int64]


class Tree(NamedTuple):
    """The records that have no group yet.

    Of the slots of a leaf the first are taken: `values` is leaf x column x slot, `places` leaf x 2 x slot, `rows` leaf
    x slot. Nodes are numbered from the root on, the children of i being 2i + 1 and 2i + 2, and the leaves come last;
    `taken`, `low` and `high` are theirs. `weight` is that of a squared difference in each column; `slack` is the
    round-off that distances can have as a share of themselves, `room` that of places. The rest is room to work in.
    """

    values: Array
    places: Array
    rows: Numbers
    leaf_of: Numbers
    taken: Numbers
    low: Array
    high: Array
    weight: Array
    slack: float
    room: float
    distance: Array
    stack: Numbers
    bound: Array


@njit(nogil=True)
def _planted(
    values: Array, places: Array, weight: Array, margins: tuple[float, float], leaves: tuple[Numbers, Numbers]
) -> Tree:
    """The tree whose leaves have the rows between borders of the order; there are a power of two of them.

    Arguments are those of `group`.
    """
    columns, rows = values.shape
    order, borders = leaves
    count = borders.size - 1
    slots = -(-rows // count)
    tree = Tree(
        np.empty((count, columns, slots)),
        np.empty((count, 2, slots)),
        np.empty((count, slots), np.int64),
        np.empty(rows, np.int64),
        np.empty(2 * count - 1, np.int64),
        np.empty((2 * count - 1, 2)),
        np.empty((2 * count - 1, 2)),
        weight,
        margins[0],
        margins[1],
        np.empty(slots),
        np.empty(DEEPEST, np.int64),
        np.empty(DEEPEST),
    )
    for leaf in range(count):
        tree.taken[count - 1 + leaf] = borders[leaf + 1] - borders[leaf]
        for slot in range(borders[leaf + 1] - borders[leaf]):
            row = order[borders[leaf] + slot]
            tree.rows[leaf, slot], tree.leaf_of[row] = row, leaf
            for j in range(columns):
                tree.values[leaf, j, slot] = values[j, row]
            for side in range(2):
                tree.places[leaf, side, slot] = places[side, row]
    for node in range(2 * count - 2, -1, -1):
        if node < count - 1:
            tree.taken[node] = tree.taken[2 * node + 1] + tree.taken[2 * node + 2]
        _fit(tree, node)
    return tree


@njit(nogil=True)
def _fit(tree: Tree, node: int) -> None:
    """The range of a node's places: from its records, with room for round-off, or from its children."""
    leaf = node - (tree.rows.shape[0] - 1)
    for side in range(2):
        low, high = np.inf, -np.inf
        if leaf < 0:
            low = min(tree.low[2 * node + 1, side], tree.low[2 * node + 2, side])
            high = max(tree.high[2 * node + 1, side], tree.high[2 * node + 2, side])
        else:
            for slot in range(tree.taken[node]):
                low = min(low, tree.places[leaf, side, slot] - tree.room)
                high = max(high, tree.places[leaf, side, slot] + tree.room)
        tree.low[node, side], tree.high[node, side] = low, high


@njit(nogil=True)
def _take_out(tree: Tree, row: int) -> None:
    """Close the gap with the last record of the leaf, and fit the nodes above it anew."""
    leaf = tree.leaf_of[row]
    node = leaf + tree.rows.shape[0] - 1
    last, slot = tree.taken[node] - 1, 0
    while tree.rows[leaf, slot] != row:
        slot += 1
    tree.rows[leaf, slot] = tree.rows[leaf, last]
    for j in range(tree.weight.size):
        tree.values[leaf, j, slot] = tree.values[leaf, j, last]
    for side in range(2):
        tree.places[leaf, side, slot] = tree.places[leaf, side, last]
    while node >= 0:
        tree.taken[node] -= 1
        _fit(tree, node)
        node = (node + 1) // 2 - 1


@njit(nogil=True)
def _measure(tree: Tree, leaf: int, size: int, point: Array) -> None:
    """Squared distances of the first `size` records of a leaf from a point, added up as the plain search does."""
    for slot in range(size):
        tree.distance[slot] = 0.0
    for j in range(point.size):
        centre, weight = point[j], tree.weight[j]
        for slot in range(size):
            difference = tree.values[leaf, j, slot] - centre
            tree.distance[slot] += difference * difference * weight


@njit(nogil=True)
def _best_score(tree: Tree, node: int, along: float, across: float, sign: float) -> float:
    """No record of the node has a larger score: `sign` times its squared distance from a point.

    The point lies so far `along` the axis and `across` from it.
    """
    if tree.taken[node] == 0:
        return -np.inf
    if sign > 0:
        length = max(along - tree.low[node, 0], tree.high[node, 0] - along)
        width = across + tree.high[node, 1]
    else:
        length = max(tree.low[node, 0] - along, along - tree.high[node, 0], 0.0)
        width = max(tree.low[node, 1] - across, across - tree.high[node, 1], 0.0)
    return float((length * length + width * width) * (sign + tree.slack))


@njit(nogil=True)
def _search(tree: Tree, point: Array, along: float, across: float, sign: float, found: list[tuple[float, int]]) -> None:
    """Fill `found` with the records farthest from the point (`sign` 1) or nearest to it (-1); of equal ones, the last.

    It is a heap of scores and rows, the worst on top. The point (columns) lies so far `along` the axis and `across`
    from it.
    """
    leaves = tree.rows.shape[0]
    for place in range(len(found)):
        found[place] = (-np.inf, -1)
    tree.stack[0], tree.bound[0], top = 0, np.inf, 1
    while top > 0:
        top -= 1
        node = tree.stack[top]
        if tree.bound[top] < found[0][0]:
            continue
        if node < leaves - 1:
            one, other = 2 * node + 1, 2 * node + 2
            first = _best_score(tree, one, along, across, sign)
            second = _best_score(tree, other, along, across, sign)
            if first > second:  # the better of the two goes on top, and is searched before the other
                one, other, first, second = other, one, second, first
            tree.stack[top], tree.bound[top] = one, first
            tree.stack[top + 1], tree.bound[top + 1] = other, second
            top += 2
            continue
        leaf, size = node - (leaves - 1), tree.taken[node]
        _measure(tree, leaf, size, point)
        worst, last = found[0]
        for slot in range(size):
            score, row = sign * tree.distance[slot], tree.rows[leaf, slot]
            if score > worst or (score == worst and row > last):
                heapreplace(found, (score, row))
                worst, last = found[0]


@njit(nogil=True)
def _lost(one: float, other: float, total: float) -> float:
    """What round-off has taken from the total of two numbers, exactly (Neumaier 1974)."""
    return (one - total) + other if abs(one) >= abs(other) else (other - total) + one


@njit(nogil=True)
def _add(sums: Array, values: Array, row: int, sign: float) -> None:
    """Add a record (`sign` 1), or take it away (-1): a `row` of the `values`, onto sums (level x column).

    Round-off is added up on a second level, and that one's on a third. So the mean of the records that are left has no
    more round-off than if it were found anew, even after an outlier as large as all the digits of the others.
    """
    for j in range(sums.shape[1]):
        added = sign * values[j, row]
        for level in range(2):
            total = sums[level, j] + added
            added, sums[level, j] = _lost(sums[level, j], added, total), total
        sums[2, j] += added


@njit(nogil=True)
def _sum(sums: Array, column: int) -> float:
    """All levels in one number."""
    total = sums[0, column] + sums[1, column]
    return float(total + (_lost(sums[0, column], sums[1, column], total) + sums[2, column]))


@njit(nogil=True)
def _place(point: Array, mean: Array, weight: Array, axis: Array) -> tuple[float, float]:
    """How far along the axis through the mean a point lies, and how far it is from it."""
    along, across = 0.0, 0.0
    for j in range(point.size):
        along += axis[j] * (point[j] - mean[j]) * np.sqrt(weight[j])
    for j in range(point.size):
        across += ((point[j] - mean[j]) * np.sqrt(weight[j]) - along * axis[j]) ** 2
    return along, np.sqrt(across)


_matrix = types.Array(types.float64, 2, "C", readonly=True)
_vector = types.Array(types.float64, 1, "C", readonly=True)
_numbers = types.int64[::1]
_float = types.float64


@compiled(
    types.void(
        _matrix,
        _matrix,
        types.UniTuple(_vector, 3),  # type: ignore[no-untyped-call]
        types.UniTuple(_float, 2),  # type: ignore[no-untyped-call]
        types.UniTuple(_numbers, 2),  # type: ignore[no-untyped-call]
        types.int64,
        _numbers,
    )
)
def group(
    values: Array,
    places: Array,
    scale: tuple[Array, Array, Array],
    margins: tuple[float, float],
    leaves: tuple[Numbers, Numbers],
    group_size: int,
    numbers: Numbers,
) -> None:
    """Fill `numbers` (rows), which come filled with -1, with the group of each record.

    `values` (columns x rows) are the records, and `places` (2 x rows) how far along the axis and from it they lie.
    `scale` has the weight of a squared difference, the mean and the axis (columns each); `margins` the round-off of
    distances as a share and that of places; `leaves` the rows, leaf after leaf, and the borders between them.
    """
    columns, left = values.shape
    weight, mean, axis = scale
    tree = _planted(values, places, weight, margins, leaves)
    sums, point = np.zeros((3, columns)), np.empty(columns)
    for row in range(left):
        _add(sums, values, row, 1.0)
    farthest, nearest = [(0.0, 0)], [(0.0, 0) for _ in range(group_size)]
    ends = np.empty(2, np.int64)
    number = 0
    while left >= 2 * group_size:
        groups = 2 if left >= 3 * group_size else 1
        for j in range(columns):
            point[j] = _sum(sums, j) / left
        along, across = _place(point, mean, weight, axis)
        for end in range(groups):
            _search(tree, point, along, across, 1.0, farthest)
            ends[end] = farthest[0][1]
            along, across = places[0, ends[0]], places[1, ends[0]]
            for j in range(columns):
                point[j] = values[j, ends[0]]
        for end in range(groups):
            for j in range(columns):
                point[j] = values[j, ends[end]]
            _search(tree, point, places[0, ends[end]], places[1, ends[end]], -1.0, nearest)
            for _, row in nearest:
                numbers[row] = number
                _add(sums, values, row, -1.0)
                _take_out(tree, row)
            number += 1
        left -= groups * group_size
    for row in range(numbers.size):
        if numbers[row] < 0:
            numbers[row] = number
