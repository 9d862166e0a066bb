"""What every step of a run needs: the plan, the random streams, and whoever hears of its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from microveil.core.rng import Stream, Streams
from microveil.methods import Plan

Progress = Callable[[str, float], None]
"""Hears the name of the step at hand and the share of the work that is done."""


@dataclass(frozen=True, repr=False)
class RunContext:
    """A run of a method over a table, or over one stratum of it."""

    plan: Plan
    streams: Streams
    progress: Progress = lambda *_: None
    stratum: int = 0

    def stream(self, step: str, *address: int) -> Stream:
        """The random stream of a step in this stratum."""
        return self.streams.stream(step, self.stratum, *address)

    def in_stratum(self, stratum: int) -> RunContext:
        """The same for one stratum of several, which tells nobody of its progress."""
        return replace(self, stratum=stratum, progress=lambda *_: None)
