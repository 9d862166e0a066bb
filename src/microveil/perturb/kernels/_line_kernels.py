"""The compiled search for the best groups along a line. Importing this module imports numba and loads or compiles."""

from __future__ import annotations

from numba import types

from microveil.core.compiled import compiled
from microveil.perturb import microaggregate

_values = types.float64[::1]

shortest_path = compiled(types.void(_values, types.int64, _values, types.int64[::1]))(microaggregate.shortest_path)
