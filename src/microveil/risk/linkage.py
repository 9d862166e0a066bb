"""Record linkage: can an intruder who knows a record find it in the release?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.measure import Measure
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import worker_count

MOST_QUERIES = 2_000
"""Records tried at most; more would only narrow the interval, which is reported."""

CONFIDENCE = 0.95


def dbrl(original: Matrix, released: Matrix, *, seed: int | None = None) -> Measure:
    """Distance-based record linkage (Pagliuca and Seri 1999; Calviño 2017, §4.1).

    The intruder has the original values of a record in every column, and takes the nearest released record for
    it (Euclidean, columns in units of the original's standard deviation). A hit is an original record to which
    no released record is nearer than its own; of k records at the same distance each counts 1/k, as the intruder
    has to guess. All released records compete; of the originals, a random sample is tried when there are many.
    Missing cells are set to the mean in both files; as a record's own cells are missing in the same places, this
    makes its own release a little nearer and the figure a little too high rather than too low.
    """
    from scipy.spatial import cKDTree

    count = original.shape[0]
    scaled_original, scaled_released = _scaled(original, released)
    tried = _sample(count, seed)
    tree = cKDTree(scaled_released)
    nearest, _ = tree.query(scaled_original[tried], k=1, workers=worker_count())
    own = np.sqrt(np.square(scaled_original[tried] - scaled_released[tried]).sum(axis=1))
    reach = nearest * (1 + 1e-12)
    found = np.flatnonzero(own <= reach)
    rivals = tree.query_ball_point(scaled_original[tried[found]], reach[found], return_length=True)
    hits = float((1 / rivals).sum())
    low, high = binomial_interval(hits, tried.size)
    return Measure(
        id="dbrl",
        value=hits / tried.size,
        low=low,
        high=high,
        chance=1 / count,
        better="low",
        range=(0.0, 1.0),
        meaning="share of records whose nearest released record is their own, for an intruder who knows all columns",
    )


def _scaled(original: Matrix, released: Matrix) -> tuple[Array, Array]:
    """Both files in units of the original's standard deviation, missing cells at its mean; constant columns dropped."""
    pairs = []
    for old, new in zip(original.columns, released.columns, strict=True):
        present = old[~np.isnan(old)]
        if present.size and present.max() > present.min():
            mean, sd = present.mean(), present.std()
            pairs.append((np.nan_to_num((old - mean) / sd), np.nan_to_num((new - mean) / sd)))
    before, after = zip(*pairs, strict=True)
    return np.column_stack(before), np.column_stack(after)


def _sample(count: int, seed: int | None) -> NDArray[np.intp]:
    if count <= MOST_QUERIES:
        return np.arange(count)
    chosen = Streams.from_seed(seed).stream("dbrl").generator().choice(count, MOST_QUERIES, replace=False)
    return np.sort(chosen)


def binomial_interval(hits: float, tries: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a share."""
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else float(betaincinv(hits, tries - hits + 1, tail))
    high = 1.0 if hits >= tries else float(betaincinv(hits + 1, tries - hits, 1 - tail))
    return low, high
