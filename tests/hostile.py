"""Tables that no method may stumble over."""

from __future__ import annotations

import numpy as np


def hostile_tables(base: np.ndarray) -> dict[str, np.ndarray]:
    """Made from a plain table of 60 rows and 4 columns, by the name of what is wrong with them."""
    rng = np.random.default_rng(2)
    return {
        "huge": base * 1e140,
        "mixed units": base * [1e100, 1e-100, 1, 1e50],
        "spikes": np.where(rng.random(base.shape) < 0.9, 0.0, base),
        "one record away": np.vstack([base, [[1e9] * 4]]),
        "two values": rng.integers(0, 2, (60, 4)).astype(float),
        "few rows": base[:5],
        "fewer rows than columns": rng.standard_normal((6, 9)),
    }
