"""Cells that are missing: they go to other rows, all of a row together."""

from __future__ import annotations

from collections import Counter

import pandas as pd


def patterns(table: pd.DataFrame) -> Counter[tuple[bool, ...]]:
    """Which cells are missing together, and in how many rows."""
    return Counter(map(tuple, table.isna().to_numpy().tolist()))
