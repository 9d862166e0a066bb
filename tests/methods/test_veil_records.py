"""Matching moments must not bring records back: not in their row, and not in any other."""

from __future__ import annotations

import numpy as np
import pytest
from samples import factor_amounts
from scipy.spatial import cKDTree

import microveil as mv


def distance_ratios(original: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Distance of each original to the nearest released record over that to the nearest other original, in ranks."""
    levels = [
        np.column_stack([np.searchsorted(np.sort(a), b) for a, b in zip(original.T, table.T, strict=True)])
        for table in (original, released)
    ]
    nearest, _ = cKDTree(levels[1]).query(levels[0])
    other, _ = cKDTree(levels[0]).query(levels[0], k=2)
    return nearest / np.maximum(other[:, 1], 1e-12)


@pytest.mark.quick("40-13")
@pytest.mark.parametrize(("rows", "columns"), [(25, 5), (40, 13), (300, 8)])
def test_exchanges_do_not_recreate_records(rows: int, columns: int) -> None:
    # The original is one of the arrangements with the right moments. With few rows and many columns there are more
    # moments than records, and a search that found it would give everybody back.
    shares = {"veil": [], "without exchanges": []}
    for seed in range(6):
        data = factor_amounts(seed, rows, columns)
        with_search = mv.protect(data, "veil", seed=seed).data
        without = mv.protect(data, "primp", marginals="smoothed", exchange=False, seed=seed).data
        shares["veil"].append((distance_ratios(data, with_search) < 0.2).mean())
        shares["without exchanges"].append((distance_ratios(data, without) < 0.2).mean())
    assert np.mean(shares["veil"]) <= np.mean(shares["without exchanges"]) + 0.02
    assert np.mean(shares["veil"]) <= 0.03


def test_doing_nothing_would_be_seen() -> None:
    data = factor_amounts(1, 40, 13)
    assert (distance_ratios(data, data) < 0.2).mean() == 1.0
