"""Labels that several files of tests make."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def random_codes(seed: int, rows: int = 200, blanks: float = 0.0) -> NDArray[np.int64]:
    """Records x five columns of 2 to 6 levels, the higher ones rare; a share of the cells is missing (-1)."""
    rng = np.random.default_rng(seed)
    columns = [np.minimum(rng.geometric(0.5, rows) - 1, levels - 1) for levels in (2, 3, 4, 5, 6)]
    codes = np.column_stack(columns).astype(np.int64)
    codes[rng.random(codes.shape) < blanks] = -1
    return codes
