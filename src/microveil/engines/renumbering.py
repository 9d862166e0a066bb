"""Identifiers that rows share, numbered anew from 1 in a secret order, of a file that is read in blocks.

The order is that of a keyed hash of each identifier. How many there are does not matter: hashes go to buckets by their
first bits, in files without a name, and each bucket is put in order by itself.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from microveil.core.late import pa
from microveil.core.rng import Streams
from microveil.io.blocks import BlockSource
from microveil.io.frames.surveyed import plain_cells
from microveil.storage.disk_columns import BYTES, DiskColumn, Shelf

Hashes = NDArray[np.uint64]

SHARE = 16
"""Of the memory allowed, the hashes of a bucket take one part in so many; they are sorted, and there are copies."""

MOST_BITS = 8


def hashing_key(streams: Streams, name: str) -> bytes:
    """The key by which the identifiers of a column are numbered."""
    return streams.stream(f"numbers of {name}").generator().bytes(32)


def numbered_anew(source: BlockSource, name: str, streams: Streams, shelf: Shelf, rows: int) -> DiskColumn:
    """For each row the new number of its identifier, 0 where that is missing.

    Args:
        source: the file.
        name: the column of identifiers.
        streams: the randomness of the release.
        shelf: where columns on a disk are made.
        rows: so many are read at a time.
    """
    key, hashes = hashing_key(streams, name), shelf.column()
    for batch in source.batches([name], rows):
        cells = source.typed(name, batch.column(name))
        encoded = plain_cells(batch.column(name) if cells is None else cells).dictionary_encode(null_encoding="encode")
        found = np.array([_hashed(cell, key) for cell in encoded.dictionary.to_pylist()], dtype=np.uint64)
        hashes.append(found[np.asarray(encoded.indices.cast(pa.int64()))].view(np.float64))
    return _ranked(hashes, shelf)


def _hashed(cell: object, key: bytes) -> int:
    """64 bits of a keyed hash; 0 for a missing cell, NaN among them."""
    if cell is None or cell != cell:
        return 0
    return int.from_bytes(hashlib.blake2b(str(cell).encode(), digest_size=BYTES, key=key).digest()) or 1


def secret_number(cell: object, key: bytes) -> int | None:
    """A number of 60 bits, where there is no place to put all of them in order; None for a missing cell."""
    return _hashed(cell, key) >> 4 or None


def _ranked(hashes: DiskColumn, shelf: Shelf) -> DiskColumn:
    """The place of each hash among the different ones, from 1 on; 0 stays."""
    needed = -(-hashes.size * BYTES * SHARE // shelf.memory)
    bits = min((needed - 1).bit_length(), MOST_BITS) if needed > 1 else 0
    buckets = [shelf.column() for _ in range(2**bits)]
    for piece in hashes.pieces():
        own = piece.view(np.uint64)
        for digit, rows in _by_bucket(own, bits):
            buckets[digit].append(own[rows].view(np.float64))
    start = 1
    for bucket in buckets:
        different, places = np.unique(bucket[:].view(np.uint64), return_inverse=True)
        none = int(different[:1].sum() == 0 < different.size)
        numbers = np.where(different[places] == 0, 0.0, places.ravel() + float(start - none))
        bucket.write(0, numbers)
        start += different.size - none
    out, taken = shelf.column(), np.zeros(len(buckets), dtype=np.int64)
    for piece in hashes.pieces():
        own = piece.view(np.uint64)
        numbers = np.empty(own.size)
        for digit, rows in _by_bucket(own, bits):
            numbers[rows] = buckets[digit][int(taken[digit]) : int(taken[digit]) + rows.size]
            taken[digit] += rows.size
        out.append(numbers)
    for column in (hashes, *buckets):
        column.close()
    return out


def _by_bucket(hashes: Hashes, bits: int) -> list[tuple[int, NDArray[np.intp]]]:
    """The rows of each bucket that has some, in their order."""
    if not bits:
        return [(0, np.arange(hashes.size))]
    digits = (hashes >> np.uint64(64 - bits)).astype(np.intp)
    order = np.argsort(digits, kind="stable")
    ends = np.cumsum(np.bincount(digits, minlength=2**bits))
    return [(digit, rows) for digit, rows in enumerate(np.split(order, ends[:-1])) if rows.size]
