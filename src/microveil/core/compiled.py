"""Compiling a loop once. Numba is slow to load: modules of compiled loops are imported late, or loops compiled late."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


def compiled(signature: Any, *, reassociate: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Compile now, and keep the result on disk where there is a place for it (a locked-down container has none).

    With `reassociate` sums may be added up in any order, several terms at a time.
    """
    from numba import njit

    fastmath: Any = {"reassoc", "contract", "nsz"} if reassociate else False

    def decorate(loop: Callable[..., Any]) -> Any:
        try:
            return njit(signature, cache=True, nogil=True, fastmath=fastmath)(loop)
        except (RuntimeError, OSError):
            return njit(signature, nogil=True, fastmath=fastmath)(loop)

    return decorate


@cache
def compiled_late(loop: Callable[..., Any], signature: str) -> Any:
    """The loop, compiled when it is first needed: for a table so large that this is worth its time."""
    return compiled(signature)(loop)
