"""A verdict on every figure: what is printed, what we find, and what may lie between the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from microveil.io.frames.dataframes import open_frame, table_like
from microveil.papers.published import Found, Printed, PublishedItem, Tolerance, interval_end

ERRORS = 3.0
"""Standard errors that a mean may be off."""

TAIL = 0.00135
"""Left out on either side where a printed figure is one draw: three standard deviations of a normal one."""

AGREES, SAME_SIZE, DIFFERS, NOT_PRINTED = "agrees", "same size", "differs", "not printed"
MISPRINT, NOT_RUN = "misprint in the paper", "not run"


@dataclass(frozen=True)
class FigureCheck:
    """A printed figure and ours; `spread` is the standard deviation of our releases, `tolerance` what is allowed."""

    row: str
    figure: str
    published: float | None
    ours: float | None
    difference: float | None
    spread: float | None
    releases: int
    tolerance: float | None
    verdict: str
    remark: str


@dataclass(frozen=True, repr=False)
class Reproduction:
    """A table or figure of a paper, line by line."""

    entry: PublishedItem
    lines: Sequence[FigureCheck]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        return f"<Reproduction of {self.entry.id}: {counts}>"

    @property
    def verdicts(self) -> dict[str, int]:
        """How many lines have which verdict, without the reasons."""
        return dict(Counter(line.verdict.partition(":")[0] for line in self.lines))

    def to_frame(self) -> Any:
        """One row per figure (polars)."""
        columns = {name: [getattr(line, name) for line in self.lines] for name in FigureCheck.__dataclass_fields__}
        return table_like(open_frame(np.zeros((1, 1))), columns)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lines = [vars(line) for line in self.lines]
        return {**about(self.entry), "notes": list(self.notes), "verdicts": self.verdicts, "lines": lines}


def about(entry: PublishedItem) -> dict[str, Any]:
    """An entry as plain data, without its figures."""
    tolerances = dict.fromkeys(figure.tolerance.reason for figure in entry.printed)
    return {
        "id": entry.id,
        "title": entry.title,
        "paper": entry.paper,
        "place": entry.place,
        "needs": entry.needs,
        "draws": entry.draws,
        "figures": len(entry.printed),
        "tolerances": list(tolerances),
        "misprints": [
            {"row": figure.row, "figure": figure.figure, "reason": figure.misprint} for figure in entry.misprints
        ],
        "notes": list(entry.notes),
    }


def line_of(printed: Printed, found: Found) -> FigureCheck:
    """A printed figure and ours, with the verdict."""
    place = (printed.row, printed.figure)
    values = np.array(found.values.get((printed.row, interval_end(printed.figure)[0]), ()))
    if not values.size:
        reason = found.absent.get(printed.row, found.otherwise)
        return FigureCheck(*place, printed.value, None, None, None, 0, None, f"{NOT_RUN}: {reason}", printed.remark)
    ours = float(values.mean() if printed.percentile is None else np.percentile(values, printed.percentile))
    spread = float(values.std(ddof=1)) if values.size > 1 else None
    allowed = _allowed(printed.tolerance, spread or 0.0, values.size)
    has_difference = printed.value is not None and printed.tolerance.factor <= 1  # a factor is in the reason
    return FigureCheck(
        *place,
        published=printed.value,
        ours=ours,
        difference=None if printed.value is None else ours - printed.value,
        spread=spread,
        releases=values.size,
        tolerance=allowed if has_difference else None,
        verdict=_verdict(printed, ours, allowed),
        remark=printed.remark,
    )


def _verdict(printed: Printed, ours: float, allowed: float) -> str:
    """A misprint is only called one where ours is what it ought to be."""
    if printed.value is None:
        return NOT_PRINTED
    factor, right = printed.tolerance.factor, printed.value if printed.recomputed is None else printed.recomputed
    near = right / factor <= ours <= right * factor if factor > 1 else abs(ours - right) <= allowed
    if printed.misprint and near:
        return f"{MISPRINT}: {printed.misprint}"
    return DIFFERS if not near else SAME_SIZE if factor > 1 else AGREES


def _allowed(tolerance: Tolerance, spread: float, releases: int) -> float:
    """The largest difference that is none, from the spread of our releases."""
    allowed = tolerance.absolute
    if tolerance.mean_of:
        allowed += ERRORS * spread / float(np.sqrt(min(releases, tolerance.mean_of)))
    if tolerance.one_draw:
        from scipy.special import stdtrit

        quantile = -float(stdtrit(releases - 1, TAIL))
        allowed += quantile * spread * float(np.sqrt(1 + 1 / releases))
    if tolerance.percentile_of:
        allowed += spread * _percentile_scatter(releases, tolerance.percentile_of)
    return allowed


@lru_cache
def _percentile_scatter(ours: int, theirs: int) -> float:
    """By how much two 2.5th percentiles of normal releases differ at most (99.7 %), in standard deviations of ours.

    One of few releases lies inwards of one of many: that is in it. Theirs needs no releases to be drawn: percentiles of
    uniform ones have a beta distribution.
    """
    from scipy.special import ndtri

    rng = np.random.default_rng(0)
    draws = rng.standard_normal((min(20_000, 8_000_000 // ours), ours))
    place = 1 + 0.025 * (theirs - 1)
    printed = ndtri(rng.beta(place, theirs + 1 - place, len(draws)))
    gaps = np.abs(np.percentile(draws, 2.5, axis=1) - printed) / draws.std(axis=1, ddof=1)
    return float(np.quantile(gaps, 1 - 2 * TAIL))
