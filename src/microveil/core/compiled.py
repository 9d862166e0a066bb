"""Compiling a loop once, for the modules of compiled loops (which are imported late, as numba is slow to load)."""

from __future__ import annotations

from collections.abc import Callable
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
