"""Named random streams: master seed -> step -> column -> block of rows.

Each draw has an address, so a result depends on the seed and the data only, never on the number of
threads, the order in which columns are treated or the size of the pieces a file is read in.

A seed people choose is easily guessed (1, 42, a date), and whoever knows the permutations can undo a swap.
So the streams are keyed by the seed *and* by a fingerprint of the original records: the same seed on the
same data gives the same bytes, and a guessed seed without the data gives nothing. Whoever has the seed and nearly all
of the data can still try what is missing; a secret that salts the seed is against that (`core.secret`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array

ROWS_PER_BLOCK = 65_536
"""Rows that share one generator. Part of the meaning of a seed: changing it changes every release."""


@dataclass(frozen=True, repr=False)
class Streams:
    """All the randomness of one release."""

    seed: int
    fingerprint: int = 0
    secret: bytes = b""
    """A key that salts the seed, if there is one."""

    attempt: int = 0
    """Counts the draws of one release, of which the last is taken."""

    @classmethod
    def from_seed(cls, seed: int | None, fingerprint: int = 0, secret: bytes = b"") -> Streams:
        """Streams of a given seed, or of fresh entropy from the operating system."""
        return cls(secrets.randbits(128) if seed is None else seed, fingerprint, secret)

    def stream(self, *address: str | int) -> Stream:
        """The stream at an address such as `("swap", 3)`."""
        again = f":{self.attempt}" if self.attempt else ""
        known = f"{self.seed}:{self.fingerprint}{again}".encode()
        path = "/".join(str(part) for part in address).encode()
        return Stream(
            entropy=int.from_bytes(hashlib.blake2b(known, digest_size=32, key=self.secret).digest()),
            key=_words(hashlib.blake2b(path, digest_size=16).digest()),
        )


@dataclass(frozen=True, repr=False)
class Stream:
    """One column's worth of random numbers, drawn block of rows by block of rows."""

    entropy: int
    key: tuple[int, ...]

    def child(self, name: str) -> Stream:
        """A stream derived from this one, for a step that needs two kinds of draws."""
        return Stream(self.entropy, (*self.key, *_words(hashlib.blake2b(name.encode(), digest_size=16).digest())))

    def generator(self, block: int = 0) -> np.random.Generator:
        """The generator of one block. Asking again starts it anew."""
        sequence = np.random.SeedSequence(self.entropy, spawn_key=(*self.key, block))
        return np.random.Generator(np.random.PCG64DXSM(sequence))

    def normal(self, size: int, start: int = 0) -> Array:
        """Standard normal deviates of so many rows, from row `start` on."""
        return self._drawn("standard_normal", size, start)

    def uniform(self, size: int, start: int = 0) -> Array:
        """Uniform deviates on [0, 1) of so many rows, from row `start` on."""
        return self._drawn("random", size, start)

    def _fill(self, kind: str, block: int, out: Array) -> None:
        """Draws of a block, from its beginning on, into an array, by the generator's method of this name."""
        getattr(self.generator(block), kind)(out=out)

    def _drawn(self, kind: str, size: int, start: int) -> Array:
        """Draws block by block. A block that is begun in the middle is drawn from its beginning, as numbers come in
        order; that it goes on beyond the end changes nothing before it.
        """
        out = np.empty(size)
        for block, rows in row_blocks(size, first=start):
            skipped = max(start - block * ROWS_PER_BLOCK, 0)
            drawn = np.empty(skipped + rows.stop - rows.start) if skipped else out[rows]
            self._fill(kind, block, drawn)
            if skipped:
                out[rows] = drawn[skipped:]
        return out

    def integers(self, bound: int, size: int) -> NDArray[np.int64]:
        """Uniform integers in 0 ... bound-1."""
        out = np.empty(size, dtype=np.int64)
        for block, rows in row_blocks(size):
            out[rows] = self.generator(block).integers(bound, size=rows.stop - rows.start)
        return out


def row_blocks(size: int, first: int = 0) -> Iterator[tuple[int, slice]]:
    """Number and extent of the fixed blocks that cover `size` rows from row `first` on; extents count from there."""
    for block in range(first // ROWS_PER_BLOCK, -(-(first + size) // ROWS_PER_BLOCK)):
        start, stop = block * ROWS_PER_BLOCK - first, (block + 1) * ROWS_PER_BLOCK - first
        yield block, slice(max(start, 0), min(stop, size))


def _words(digest: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(digest, dtype="<u4").tolist())
