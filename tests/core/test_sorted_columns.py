"""Columns in order: the quick sort gives the order of the stable one, whatever is equal or missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata

from microveil.core.sorted_columns import FEW, ascending_order, mid_ranks

RNG = np.random.default_rng(0)
COLUMNS = {
    "distinct": RNG.normal(size=5_000),
    "heaps": np.round(RNG.normal(size=5_000), 1),
    "missing": np.where(RNG.random(5_000) < 0.1, np.nan, RNG.normal(size=5_000)),
    "zeros": np.array([0.0, -0.0, 0.0, -1.0]),
    "long": RNG.lognormal(size=2 * FEW),
    "long, alike in their first digits": 1e6 + RNG.random(FEW + 1) * np.where(RNG.random(FEW + 1) < 0.5, 1, 1e-6),
    "long, with heaps, zeros and gaps": RNG.choice([0.0, -0.0, np.nan, 1.5, -2.5, np.inf, -np.inf, 1e-310], FEW),
    "long, of single precision": RNG.normal(size=FEW).astype(np.float32),
    "long, every other row": RNG.normal(size=2 * FEW)[::2],
    "one": np.ones(1),
    "none": np.ones(0),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_order_is_that_of_a_stable_sort(name: str) -> None:
    column = COLUMNS[name]
    assert ascending_order(column).tolist() == np.argsort(column, kind="stable").tolist()
    if not np.isnan(column).any() and name != "none":
        assert mid_ranks(column).tolist() == rankdata(column).tolist()
