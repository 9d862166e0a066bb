"""What an entry of the registry is: a table or figure of a paper, as it is printed, and how ours is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Progress = Callable[[str, float], None]
Place = tuple[str, str]
"""The row and the figure in it."""


@dataclass(frozen=True)
class Tolerance:
    """How near ours has to come to what is printed, and why.

    `absolute` is a difference; `releases` the number of releases behind our mean for which it is meant: with fewer, it
    grows as a standard error does. `factor` allows a ratio instead. `one_draw`: the paper prints a single draw, so the
    spread of our draws is allowed beside it. `percentile_of`: it prints the 2.5th or 97.5th percentile of so many
    releases, so what such percentiles scatter by is.
    """

    reason: str
    absolute: float = 0.0
    releases: int = 0
    factor: float = 1.0
    one_draw: bool = False
    percentile_of: int = 0


@dataclass(frozen=True)
class Printed:
    """One printed figure; `value` is None where we show a figure that the paper does not have.

    `misprint` says why the printed value is wrong; `recomputed` is what it ought to be, and ours is held against that.
    `percentile` of our releases is ours; their mean, if it is None.
    """

    row: str
    figure: str
    value: float | None
    tolerance: Tolerance
    misprint: str = ""
    recomputed: float | None = None
    remark: str = ""
    percentile: float | None = None


@dataclass(frozen=True)
class RunOptions:
    """How an entry is to be run."""

    repeats: int
    seed: int | None
    workers: int | None
    progress: Progress


@dataclass(frozen=True)
class Found:
    """Our figures: the values of all releases by row and figure; `absent` says of a row why it has none."""

    values: Mapping[Place, Sequence[float]]
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class PublishedItem:
    """A table or figure of a paper. `least_repeats` is 0 where nothing is drawn."""

    id: str
    title: str
    paper: str
    place: str
    needs: str
    printed: Sequence[Printed]
    run: Callable[[RunOptions], Found]
    least_repeats: int = 1
    notes: Sequence[str] = ()

    @property
    def misprints(self) -> list[Printed]:
        """The printed figures that are known to be wrong."""
        return [figure for figure in self.printed if figure.misprint]


class NotRunError(Exception):
    """An entry cannot be run here: a file or a package is not there."""


def rounding(decimals: int) -> Tolerance:
    """Nothing but the rounding of what is printed."""
    return Tolerance(f"half a unit of the last printed decimal ({decimals})", 0.5000001 * 10.0**-decimals)


def percentiles(of: int) -> Tolerance:
    """An end of a printed interval, which is a percentile of so many releases."""
    reason = f"what percentiles scatter by, ours of as many releases as asked for and the paper's of {of:,}, at 99.7 %"
    return Tolerance(f"{reason}, if releases were normal", 0.00005, percentile_of=of)


ENDS = {"2.5 %": 2.5, "97.5 %": 97.5}
"""The ends of the papers' intervals, which are percentiles of releases."""


def interval(row: str, figure: str, ends: Sequence[float], of: int, remark: str = "") -> list[Printed]:
    """Both ends of a printed interval."""
    return [
        Printed(row, f"{figure}, {word}", end, percentiles(of), remark=remark, percentile=percentile)
        for (word, percentile), end in zip(ENDS.items(), ends, strict=True)
    ]


def with_ends(values: Mapping[Place, Sequence[float]], figures: Sequence[str]) -> dict[Place, Sequence[float]]:
    """The same releases once more for the ends of the intervals of these figures."""
    again = {(row, f"{name}, {word}"): of for (row, name), of in values.items() if name in figures for word in ENDS}
    return {**values, **again}
