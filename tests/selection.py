"""Which of many alike cases `make test` runs; `make slow` runs the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

PERTURBATIONS = ("swap", "shuffle", "redraw", "noise", "microaggregate")
"""One of a kind each: ranks exchanged, values exchanged, drawn anew, blurred, averaged."""


def mostly_slow(names: Iterable[str], quick: Iterable[str] = PERTURBATIONS) -> list[Any]:
    """The names as parameters of a test, all but the `quick` ones marked as slow."""
    kept = set(quick)
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]
