"""Linkability: two halves of one person, put together by means of the release.

The intruder holds two files without names: one has some columns of people, the other has other columns of the same
people (what a shop knows, and what an insurance knows), and nothing says which rows belong together. So the intruder
looks up each row in the release: if a row of either file has the *same* released record as its nearest, they are taken
for one person.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.risk.control import Trial
from microveil.measures.risk.proportions import PAIRS, Tally, attack

SPLITS = 5


@attack(
    "share of records of which one half of the columns and the other have the same nearest released record, beyond a "
    "control"
)
def linkability(
    original: Matrix, released: Matrix, *, control: Matrix | None = None, seed: int | None = None
) -> Estimate:
    """Linkability, the second risk of WP216.

    The columns are cut into two halves at random, five times, and the mean is taken. A record is a hit if its two
    halves have the same nearest released record, whichever it is; of equally near ones each half picks one at random.
    The control is a control file, or the nearest *other* originals.
    """
    trial = Trial.of(original, released, control, seed, pairs=PAIRS // 20)
    width = trial.original.shape[1]
    if width < 2:
        raise DataError("linkability needs two columns that vary", "one column cannot be cut in two halves")
    stream = Streams.from_seed(seed).stream("halves of the columns")
    halves = [np.array_split(stream.generator(split).permutation(width), 2) for split in range(SPLITS)]
    return trial.run(partial(_put_together, halves=halves, stream=stream.child("equals"))).estimate(note=trial.sample)


def _put_together(
    source: Array, targets: Array, own: Index | None, *, halves: list[list[Index]], stream: Stream
) -> Tally:
    """The mean number of targets, over the ways to cut the columns, whose halves meet in one record of the source.

    `source` and `targets` are records x columns, `own` the rows of the source that the targets are, if they are in it.
    """
    each = np.zeros(len(targets))
    for number, half in enumerate(halves):
        # Records that have a cell in either half.
        usable, asked = (
            np.all([~np.isnan(side[:, columns]).all(axis=1) for columns in half], axis=0) for side in (source, targets)
        )
        if usable.any():
            itself = None if own is None else (np.cumsum(usable) - 1)[own[asked]]
            generator = stream.generator(number)
            first, second = (
                _lookup(targets[asked][:, columns], source[usable][:, columns], itself, generator) for columns in half
            )
            each[asked] += (first == second) & (first >= 0)
    each /= len(halves)
    return Tally(float(each.sum()), len(targets), each)


def _lookup(queries: Array, records: Array, own: Index | None, generator: np.random.Generator) -> Index:
    """The nearest of the `records` (n x k) to each of the `queries` (m x k), but for its own; -1 if there is no other.

    The records are looked through in a random order, so that the picks of two searches among equals are independent.
    """
    order = generator.permutation(len(records))
    which, distance = nearest(np.nan_to_num(queries), np.nan_to_num(records[order]), 1 if own is None else 2)
    found = np.where(np.isfinite(distance), order[which], -1)
    if own is None:
        return found[:, 0]
    return np.where(found[:, 0] == own, found[:, 1], found[:, 0])
