"""Tables of numbers, masked and shuffled, that `assess` is tried on."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAMES = ["wages", "profit", "export", "import", "stock"]

SENTINEL = 86420.97531
"""A value that no message may show."""


def table(rows: int = 250) -> Array:
    rng = np.random.default_rng(1)
    values = np.round(rng.lognormal(sigma=0.7, size=(rows, 5)) @ (np.eye(5) + 0.4) * 1000)
    values[0, 0] = np.round(SENTINEL)
    return values


def masked(data: Array) -> Array:
    return np.round(data + 0.3 * data.std(axis=0) * np.random.default_rng(2).normal(size=data.shape))


def shuffled(data: Array) -> Array:
    rng = np.random.default_rng(3)
    return np.column_stack([rng.permutation(column) for column in data.T])


def frame(data: Array) -> pl.DataFrame:
    return pl.DataFrame(data, schema=NAMES)
