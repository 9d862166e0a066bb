"""The compiled loop of rank swapping. Importing this module imports numba and compiles or loads the loop."""

from __future__ import annotations

from numba import types

from microveil.core.compiled import compiled
from microveil.perturb import rank_swap

_ranks = types.int64[::1]

walk = compiled(types.void(types.float64[::1], types.int64, _ranks, _ranks, _ranks))(rank_swap.walk)
