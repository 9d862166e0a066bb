"""Units: a share is a fraction, and a percentage is refused."""

from __future__ import annotations

from typing import Any

import numpy as np


def no_percentage(value: Any, what: str) -> Any:
    """The value, unless it is a percentage where a fraction is asked for."""
    if isinstance(value, int | float | np.integer) and 1 < value <= 100:
        raise ValueError(f"{value:g} is not {what}; if {value:g} % was meant, give {value / 100:g}")
    return value
