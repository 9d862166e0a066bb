"""The budget: how many second moments a release may be fitted to, and which.

More sums than the records can hide would tell who is in the file.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.restore.features import HEAPS, LAYERS, LEVELS, FeatureBlocks

LAYERED_PER_ROW, SINGLE_PER_ROW = 1.25, 0.5
"""The budget: correlations of all layers, and single moments, that are fitted to at most, for each record; more sums
are more than the records can hide."""

SOME_ROWS, MANY_ROWS = 1_500, 4_000
"""Rows that a table needs for each single moment that is fitted to per record: some for those with labels, many for
bends, whose strongest owe most to chance. In small tables both would tell who is in the file."""

BENT = 0.25
"""Share of the single moments beyond labels that bends of values may have, before labels take all of them."""

LARGE_TABLE, SMALL_FIRST = 50, 0.75
"""Cells of a two-way table, or groups, beyond which its moments come after those of others; these may take so much of
the single moments before it is the turn of large tables, which would else be left to chance altogether."""

WEAK = 2.0
"""Moments of ranks below so many standard errors are left to chance."""


def within_budget(blocks: FeatureBlocks, target: Array, count: int, share: float) -> Mask:
    """The moments that there are records enough for: features x features.

    Values and ranks come first; layers of squared and cubed ranks if all layers together leave room; then single
    moments: the strongest bends of values, those with labels (most group means and small two-way tables, then mean
    ranks; large tables; what is left of the small), and last the strongest others, heaps before bends of ranks.

    Args:
        blocks: the features.
        target: their second moments.
        count: of the records.
        share: that of these records of the whole that they are a part of.
    """
    degree, owner, kind, values = blocks.degree, blocks.owner, blocks.kind, blocks.values
    chosen = blocks.in_layers.copy()
    if LAYERS * values * (values - 1) // 2 > LAYERED_PER_ROW * count:
        for own in blocks.layers[2:]:
            chosen[own, own] = False
    p, q = np.nonzero(np.triu(owner[:, None] != owner) & ~blocks.in_layers)
    low, high = np.minimum(degree[p], degree[q]), np.maximum(degree[p], degree[q])
    order_of = np.maximum(low, 1) + high
    strength = np.abs(target[p, q])
    # Values are matched with values, in their layer, with squares (bends) and levels (group means), not with ranks.
    squared = blocks.bent[p, q]
    crossed = (low == 0) & (high > 0) & (kind < LEVELS)[[p, q]].all(axis=0) | squared
    heaped = (kind == HEAPS)[[p, q]].any(axis=0)
    bent = np.flatnonzero(squared & (low == 0))
    simple = np.flatnonzero((order_of <= 2) & ~crossed & ~heaped)
    strong = np.flatnonzero(((order_of > 2) | heaped) & (strength * np.sqrt(count) >= WEAK) & ~crossed)
    most, room = (int(count * min(SINGLE_PER_ROW, count / share / rows)) for rows in (SOME_ROWS, MANY_ROWS))
    bent = bent[np.argsort(-strength[bent], kind="stable")][: int(BENT * room)]
    size = np.where(kind == LEVELS, np.bincount(owner[kind == LEVELS], minlength=blocks.width)[owner], 1)
    ranked = (kind == 1)[[p[simple], q[simple]]].any(axis=0)
    simple = simple[np.lexsort((-strength[simple], ranked))]
    weight = np.where(kind == LEVELS, 1 - 1 / size, 1.0)  # levels add up to one: the last follows from the others
    cost, large = weight[p[simple]] * weight[q[simple]], size[p[simple]] * size[q[simple]] > LARGE_TABLE
    early = np.cumsum(np.where(large, 0.0, cost)) <= SMALL_FIRST * (most - bent.size)
    order = np.argsort(np.where(large, 1, np.where(early, 0, 2)), kind="stable")
    simple = simple[order][np.cumsum(cost[order]) <= most - bent.size]
    strong = strong[np.lexsort((-strength[strong], order_of[strong]))][: max(room - bent.size - simple.size, 0)]
    for those in (bent, simple, strong):
        chosen[p[those], q[those]] = True
    return chosen | chosen.T


def nearly_alike(blocks: FeatureBlocks, target: Array, count: int) -> Mask:
    """Which features that move along with a number are those of another column but for a few records.

    The difference of both would be these records: a flag of zeros in one year, and in the next. All features of the
    column are meant, as they add up to one.
    """
    levels = blocks.kind >= LEVELS
    share = np.where(levels, np.clip(1 - np.diag(target), 0.0, 1.0), 0.0)  # with weights it may be beyond
    both = np.outer(share, share)
    apart = count * (np.add.outer(share, share) - 2 * (both + target * np.sqrt(both)))
    apart = np.minimum(apart, count - apart)
    few = (apart > 0.5) & (apart < FEWEST_RECORDS - 0.5) & np.outer(levels, levels)
    few &= blocks.owner[:, None] != blocks.owner
    along = np.arange(blocks.width) >= max([blocks.levels.start, *(block.last for block in blocks.labels)])
    later = along & np.triu(few).any(axis=0)
    found: Mask = along & np.isin(blocks.owner, blocks.owner[later])
    return found
