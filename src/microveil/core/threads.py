"""Work in several threads with results that do not depend on how many.

BLAS may add up in another order when its number of threads changes. So while we work, BLAS gets one thread,
and the rows are cut into pieces whose borders depend on the number of rows only; threads take pieces.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError

Result = TypeVar("Result")

CELLS_PER_PIECE = 131_072
"""Cells handled at once: a megabyte stays in the cache between steps, and keeps numpy busy long enough that
threads seldom wait for each other (with half of it, two threads were no faster than one)."""

SEGMENTS = 16
"""Runs of pieces that are added up on their own. Enough for the cores of a workstation, few enough to store."""

_lock = threading.Lock()
_users = 0
_limit: Any = None


def worker_count() -> int:
    """Threads to use: `MICROVEIL_THREADS`, or the cores this process may run on."""
    wanted = os.environ.get("MICROVEIL_THREADS", "").strip()
    if not wanted:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (wanted.isascii() and wanted.isdecimal()) or int(wanted) < 1:
        raise ParameterError("MICROVEIL_THREADS must be a whole number of at least 1", "unset it to use all cores")
    return int(wanted)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS on one thread, for as long as any caller is inside (the limit is one per process)."""
    global _users, _limit
    with _lock:
        _users += 1
        if _users == 1:
            _limit = _libraries(len(sys.modules)).limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limit.restore_original_limits()
                _limit = None


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """The libraries of this process that have threads. They come with modules: with more of these, it looks again."""
    return ThreadpoolController()


def in_threads(
    tasks: Sequence[Callable[[], Result]], report: Callable[[int], None] = lambda _: None, *, small: bool = False
) -> list[Result]:
    """Run the tasks, as many at a time as there are workers; results in the order of the tasks.

    `report` is called, in the thread of the caller, with how many are done. Threads do not pay for `small` work.
    """
    workers = 1 if small else min(worker_count(), len(tasks))
    results = []
    with ThreadPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        for result in (task() for task in tasks) if pool is None else pool.map(lambda task: task(), tasks):
            results.append(result)
            report(len(results))
    return results


def rows_per_piece(columns: int) -> int:
    """Rows of a piece: a power of two between 256 and 8192."""
    rows = CELLS_PER_PIECE // max(columns, 1)
    return min(max(1 << rows.bit_length() >> 1, 256), 8_192)


def segments(count: int, columns: int) -> list[list[slice]]:
    """The rows 0 ... count-1 as segments of pieces; the same for everyone who asks with these numbers."""
    rows = rows_per_piece(columns)
    pieces = [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
    size = -(-len(pieces) // SEGMENTS) or 1
    return [pieces[start : start + size] for start in range(0, len(pieces), size)]


class Room:
    """Memory for one piece, used again for the next: asking the system for it each time costs more than the sums."""

    def __init__(self, columns: int, pieces: list[slice]) -> None:
        self.values = np.empty((columns, (pieces[0].stop - pieces[0].start)))

    def of(self, piece: slice) -> Array:
        """As many rows of it as the piece has."""
        return self.values[:, : piece.stop - piece.start]


def for_each_piece(do: Callable[[slice, Array], None], count: int, columns: int) -> None:
    """Do something for each piece of the rows 0 ... count-1, in threads, with memory for it (columns x rows)."""

    def segment(pieces: list[slice]) -> None:
        room = Room(columns, pieces)
        for piece in pieces:
            do(piece, room.of(piece))

    in_threads([partial(segment, pieces) for pieces in segments(count, columns)])
