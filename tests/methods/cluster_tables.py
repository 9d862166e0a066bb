"""Firms in clusters, and their releases by the methods that keep what clusters have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import microveil as mv

Array = NDArray[np.float64]

COLUMNS = ["wages", "tax", "energy"]


def firms(seed: int = 0, rows: int = 600, clusters: int = 12) -> pd.DataFrame:
    """Firms in clusters with slopes of their own on their size; clusters have pieces, and are grouped."""
    rng = np.random.default_rng(seed)
    cluster = rng.permutation(np.arange(rows) % clusters)
    size, age = rng.lognormal(3, 0.5, rows), rng.uniform(1, 40, rows)
    slopes = rng.normal(1, 0.3, (clusters, 3))
    mixing = rng.standard_normal((3, 3))
    values = 5 * cluster[:, None] + slopes[cluster] * size[:, None] + 0.2 * age[:, None]
    frame = pd.DataFrame(values + 8 * rng.standard_normal((rows, 3)) @ mixing, columns=COLUMNS)
    frame["size"], frame["age"] = size, age
    frame["cluster"] = [f"c{number:02d}" for number in cluster]
    frame["group"] = [f"g{number % 3}" for number in cluster]
    frame["piece"] = rng.choice(["north", "south"], rows)
    return frame


def released(frame: pd.DataFrame, method: str = "cluster_hybrid", **given: Any) -> tuple[mv.Release, Array, Array]:
    given.setdefault("seed", 1)
    release = mv.protect(frame, method, confidential=COLUMNS, rules=None, **given)
    return release, frame[COLUMNS].to_numpy(), release.data[COLUMNS].to_numpy()
