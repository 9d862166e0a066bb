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
    spread of our draws is allowed beside it.
    """

    reason: str
    absolute: float = 0.0
    releases: int = 0
    factor: float = 1.0
    one_draw: bool = False


@dataclass(frozen=True)
class Printed:
    """One printed figure; `value` is None where we show a figure that the paper does not have.

    `misprint` says why the printed value is wrong; `recomputed` is what it ought to be, and ours is held against that.
    """

    row: str
    figure: str
    value: float | None
    tolerance: Tolerance
    misprint: str = ""
    recomputed: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Asked:
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
class Entry:
    """A table or figure of a paper. `least_repeats` is 0 where nothing is drawn."""

    id: str
    title: str
    paper: str
    place: str
    needs: str
    printed: Sequence[Printed]
    run: Callable[[Asked], Found]
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
