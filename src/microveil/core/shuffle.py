"""Uniformly random rearrangement of a column, fast also when the column is larger than the cache.

A plain Fisher-Yates shuffle jumps through the whole column, and beyond the cache each jump waits for memory.
The shuffle of Rao (1961) and Sandelius (1962) does not: give each row a uniformly random bucket, shuffle
each bucket, which fits in the cache, and join the buckets in order. The result is exactly uniform over all
permutations, because the buckets are bits of random words and the choices within a bucket are exactly uniform.

An engine that reads a file in pieces can make the very same permutation with an external shuffle: write the
rows of each block of rows to bucket files, then shuffle each bucket in memory. This is why

- the number of buckets depends on the number of rows only (`bucket_count`);
- the buckets of a block of rows come from that block's own generator (`drawn_buckets`);
- rows enter a bucket in row order;
- the order within a bucket depends on its length and its own generator only (`shuffle_bucket`).

All its random bits are raw words of numpy's generators, read from their low end: the one thing numpy promises not
to change from version to version. (Columns of up to SMALL rows are left to numpy's own `permutation`.) The compiled
loops release the GIL, so columns may be shuffled in threads, with the same result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index
from microveil.core.rng import ROWS_PER_BLOCK, Stream, row_blocks

SMALL = 2**21
"""Up to this many rows, numpy's own shuffle. Part of the meaning of a seed, like the other numbers here.

A fresh process needs about 0.3 s to import numba and load the compiled loops. A file of 13 columns wins that
back from about two million rows; below, numpy is faster although each of its shuffles takes twice as long.
"""

ROWS_PER_BUCKET = 65_536
"""Mean rows of a bucket, at most: half a megabyte, so that a bucket and its draws fit in the L2 cache."""

MOST_BUCKETS = 65_536
"""A bucket's number has 16 bits. Beyond 2**32 rows the buckets grow, and only the speed suffers."""

FIRST_BUCKET = 2**31
"""Bucket k draws from block FIRST_BUCKET + k of the stream, far above the number of any block of rows."""


def shuffled(values: Array, stream: Stream) -> Array:
    """A uniformly random rearrangement of a 1-D array; the array itself stays as it is."""
    if len(values) <= SMALL:
        return stream.generator(0).permutation(values)
    return shuffled_in_buckets(values, stream, bucket_count(len(values)))


def bucket_count(rows: int) -> int:
    """The least power of two that gives buckets of at most ROWS_PER_BUCKET rows on average."""
    buckets_needed = max(1, -(-rows // ROWS_PER_BUCKET))
    return min(1 << (buckets_needed - 1).bit_length(), MOST_BUCKETS)


def shuffled_in_buckets(values: Array, stream: Stream, buckets: int) -> Array:
    """Rao-Sandelius shuffle; `buckets` is a power of two, at most MOST_BUCKETS."""
    from microveil.core import _order_kernels as kernels  # numba is slow to import: only for large columns

    # Making a generator holds the GIL. Threads wait less for each other if each makes all of its own at once.
    bucket_generators = [stream.generator(FIRST_BUCKET + bucket) for bucket in range(buckets)]

    # 1. The bucket of each row.
    digits = drawn_buckets(stream, buckets, slice(0, len(values)))

    # 2. Rows to buckets, in row order. A strided column is made contiguous block by block, to save memory.
    sizes = np.zeros(buckets, dtype=np.uint64)
    kernels.count(digits, sizes)
    ends = np.cumsum(sizes)
    next_free = ends - sizes
    out = np.empty(len(values))
    for _, rows in row_blocks(len(values)):
        kernels.scatter(np.require(values[rows], np.float64, ["C", "A"]), digits[rows], next_free, out)

    # 3. Each bucket in random order.
    start = 0
    for generator, end in zip(bucket_generators, ends.tolist(), strict=True):
        shuffle_bucket(out[start:end], generator)
        start = end
    return out


def traded_places(alike: NDArray[np.generic] | None, count: int, stream: Stream) -> Index:
    """The row that each of so many rows gets its cells from, if rows trade them at random.

    A row trades with rows that have its number in `alike`; if that is None, with all.
    """
    if alike is None:
        return shuffled(np.arange(count, dtype=np.float64), stream).astype(np.intp)
    places = np.empty(count, dtype=np.intp)
    places[np.argsort(alike, kind="stable")] = np.lexsort((stream.uniform(count), alike))
    return places


def drawn_buckets(stream: Stream, buckets: int, rows: slice) -> NDArray[np.uint16]:
    """The random bucket of each of some rows, which may begin and end inside a block of rows.

    It is the low bits of 16-bit pieces of random words.
    """
    digits = np.empty(rows.stop - rows.start, dtype=np.uint16)
    for block, part in row_blocks(digits.size, first=rows.start):
        skipped = max(rows.start - block * ROWS_PER_BLOCK, 0)
        size = skipped + part.stop - part.start
        pieces = stream.generator(block).bit_generator.random_raw(-(-size // 4)).view(np.uint16)
        digits[part] = pieces[skipped:size] & np.uint16(buckets - 1)
    return digits


def shuffle_bucket(values: Array, generator: np.random.Generator) -> None:
    """Shuffle one bucket in place (Fisher-Yates)."""
    from microveil.core import _order_kernels as kernels

    unplaced = len(values)
    while unplaced > 1:  # more than once only if some draws were passed over to keep the choices uniform
        words = generator.bit_generator.random_raw(unplaced // 2)  # two draws a word; the first value needs none
        _bring_into_cache(values[:unplaced])
        unplaced = kernels.fisher_yates(values, words.view(np.uint32), unplaced)


def _bring_into_cache(values: Array) -> None:
    """Read one value per cache line. Reading in order is foreseen by the processor, the jumps of a shuffle are not."""
    values[::8].view(np.int64).max()
