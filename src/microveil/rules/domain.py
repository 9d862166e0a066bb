"""The domain of a column: which values it can have at all, learnt from those it has.

Only what everyone may know is learnt: a sign, a step, a share of zeros. The extremes of a column are not its
bounds, as they are values of single records. Heaps at round numbers, where people round what they say, are found too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.tolerances import TEXT_ROUND_OFF

DECIMALS = 4
"""Decimals up to which a column counts as rounded."""

MOST_ROUNDED = 1e-3
"""Distance from a multiple of the step that is round-off, as a share of the step at most.

With a share of the value alone, one of a billion steps would always be near enough to a multiple.
"""

OWN_STEP = 5
"""Values other than zero from which on a step above 1 is a custom; the divisor of fewer is nearly one of them."""

FIRST_ROWS = 64
"""Rows on which most columns without a step are seen to have none."""

MANY_ROWS = 100_000

SPIKE = 0.05
"""Share of zeros from which on they are a value of their own: no turnover, no children."""


@dataclass(frozen=True)
class Domain:
    """What values a column can have; None where nothing is known. `zeros` is their share, if there is a spike."""

    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    zeros: float | None = None

    def over(self, other: Domain) -> Domain:
        """The domain, completed by the other where nothing is known here."""
        return replace(other, **{name: value for name, value in vars(self).items() if value is not None})

    def here(self, values: Array) -> Domain:
        """The domain with the share of zeros that these values have, if zeros are a value of their own at all."""
        present = np.count_nonzero(~np.isnan(values))
        if self.zeros is None or present == 0:
            return self
        return replace(self, zeros=float(np.count_nonzero(values == 0) / present))

    def rounded(self, values: Array) -> Array:
        """The nearest multiples of the step."""
        return values if self.step is None else _multiples(np.round(values / self.step), self.step)

    def allowed(self, values: Array) -> Array:
        """The nearest values that the column can have."""
        least, largest = self.bounds()
        values = self.rounded(values)
        return values if least is None and largest is None else np.clip(values, least, largest)

    def bounds(self) -> tuple[float | None, float | None]:
        """The least and the largest value: if there is a step, the outermost multiples of it between the bounds."""
        step = self.step
        if step is None:
            return self.minimum, self.maximum
        least = None if self.minimum is None else np.ceil(self.minimum / step - _slack(self.minimum / step))
        largest = None if self.maximum is None else np.floor(self.maximum / step + _slack(self.maximum / step))
        return (
            None if least is None else float(_multiples(least, step)),
            None if largest is None else float(_multiples(largest, step)),
        )

    def outside(self, values: Array) -> int:
        """How many values the column could not have had."""
        present = values[~np.isnan(values)]
        wrong = np.zeros(present.size, dtype=bool)
        if self.minimum is not None:
            wrong |= present < self.minimum
        if self.maximum is not None:
            wrong |= present > self.maximum
        if self.step is not None:
            wrong |= ~_on_grid(present, self.step)
        return int(np.count_nonzero(wrong))


def learnt_domain(values: Array, minimum: float, maximum: float) -> Domain:
    """Sign, step and spike at zero of a column, whose extremes are known."""
    if np.isnan(minimum):
        return Domain()  # no value at all
    zeros = 0.0
    count = _zeros(values) if minimum <= 0 <= maximum else 0
    if count:
        zeros = float(count / np.count_nonzero(~np.isnan(values)))
    return Domain(
        minimum=0.0 if minimum >= 0 else None,
        maximum=0.0 if maximum <= 0 else None,
        step=step_of(values),
        zeros=zeros if zeros >= SPIKE else None,
    )


def heaped_ends(values: Array) -> Domain:
    """The least and the largest value of a column, where so many records have it that it tells of none of them."""
    present = values[~np.isnan(values)]
    ends = [] if present.size == 0 else [float(present.min()), float(present.max())]
    least = max(FEWEST_RECORDS, SPIKE * present.size)
    return Domain(*(end if np.count_nonzero(present == end) >= least else None for end in ends))


def _zeros(values: Array) -> int:
    """How many zeros there are; none where there is none among every eleventh of many rows, as then it is no spike."""
    if values.size > MANY_ROWS and np.count_nonzero(some := values[::11]) == some.size:
        return 0
    return values.size - int(np.count_nonzero(values))


def step_of(values: Array) -> float | None:
    """The step that all values are multiples of: 1 or more for whole numbers, 0.1 ... 0.0001, or None."""
    first = values[:FIRST_ROWS]
    step = _step(first[~np.isnan(first)])
    if step is None:
        return None
    present = values[~np.isnan(values)]
    step = _step(present) if values.size > FIRST_ROWS else step
    if step is None or present.size == 0:
        return step
    # Where all values are next to one multiple, it is the offset of the column that is rounded.
    return None if 0 < np.ptp(present) < step / 2 else step


def _step(values: Array) -> float | None:
    if (values == np.round(values)).all():
        if np.abs(values).max(initial=0.0) >= 2**53:
            return None  # the numbers beyond are all whole, and tell nothing
        if np.count_nonzero(values) < OWN_STEP:
            return 1.0
        return float(np.gcd.reduce(np.abs(values).astype(np.int64)))
    for decimals in range(1, DECIMALS + 1):
        if _on_grid(values, 10.0**-decimals).all():
            return float(10.0**-decimals)
    return None


def _on_grid(values: Array, step: float) -> Mask:
    steps = values / step
    on_grid: Mask = np.abs(steps - np.round(steps)) <= _slack(steps)
    return on_grid


def _slack(steps: Any) -> Any:
    """How far from a whole number of steps is round-off."""
    return np.minimum(TEXT_ROUND_OFF * np.maximum(np.abs(steps), 1.0), MOST_ROUNDED)


def _multiples(number: Any, step: float) -> Any:
    """So many steps; by division where a whole number of them makes one: 3 / 10 is what '0.3' is read as, 3 * 0.1 not.

    Adding zero turns -0.0, which shows that the value was below it, into 0.0.
    """
    per_unit = round(1 / step)
    return (number / per_unit if per_unit > 1 and abs(per_unit * step - 1) <= TEXT_ROUND_OFF else number * step) + 0.0


BASES = (5, 10, 50, 100, 500, 1_000, 10_000, 100_000, 1_000_000)
"""Round numbers, in steps of the column."""

TIMES = 1.5
"""How many times as often as expected makes a heap."""

LEAST = 0.05
"""Share of the values from which on there is a heap to speak of."""

SURE = 5
"""Standard errors by which a share must be above what is expected."""

WIDE = 4
"""Multiples of a round number that the middle of the column must span for its share to mean anything."""


def heaping(values: Array, step: float | None) -> dict[int, float]:
    """The share of the values other than zero that are multiples of a round number, for those at which there is a heap.

    Without heaping, one in `base / step` values is a multiple of a base. Of a base that is the multiple of another
    only what goes beyond the other is a heap of its own: nobody rounds to 50 where all that are round are round to 5.
    """
    present = values[~np.isnan(values) & (values != 0)]
    if step is None or step > 1 or present.size == 0:
        return {}
    low, high = np.quantile(present, [0.05, 0.95])
    found: dict[int, float] = {}
    finer, share_finer = step, 1.0
    for base in BASES:
        if high - low < WIDE * base:
            break
        share = float(np.mean(present == base * np.round(present / base)))
        expected = share_finer * min(1.0, finer / base)
        if share > max(LEAST, TIMES * expected) and share - expected > SURE * np.sqrt(expected / present.size):
            found[base], finer, share_finer = share, base, share
    return found
