"""How many examples a property test draws: a few, the same in every run; or at random, as many as `make fuzz` says."""

from __future__ import annotations

import os

VARIABLE = "MICROVEIL_FUZZ"
FUZZED = int(os.environ.get(VARIABLE) or 0)
"""Examples per property test when they are drawn at random; 0 means that they are the same in every run."""


def examples(count: int) -> int:
    """`count`, or as many as `make fuzz` says; for tests that do not keep hypothesis' own number."""
    return FUZZED or count
