"""Smoothing: values that tell as much about a column as its own, and none about a single record.

A value that moves only within the gap to its neighbours still says where one record was: summed over many columns,
such gaps tell members of a file from strangers. So the sorted values are cut into windows of random size, and each
window's values are drawn anew, between its ends, from a beta distribution with its mean and variance. The draws are
then given that mean and variance exactly, unless a few records dominate the window: its sum and the released
neighbours would tell them (the p % rule of tables, on what the values have beyond the window's inner end).

What many records share (a heap: zero, a round number, an answer) is nobody's own, and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Stream
from microveil.rules.domain import Domain, step_of

Index = NDArray[np.intp]

DOMINATED = 0.1
"""The p % rule: all but the two largest excesses must come to this share of the largest one, or a sum tells it."""

FLATTEST, SHARPEST = 0.2, 200.0
"""Limits of the concentration of a beta distribution: below the first, all draws stand at the ends of a window; above
the second they are all the same."""

LEAST_SHAPE = 0.05
"""Below this, numpy's beta deviates underflow."""

OUTER, OUTER_SHARE = 2, 1 / 12
"""How much wider than others the outer windows are, and the share of the values that one has at most: in a short
column wider ones would take its shape away."""

LEAST_END, MOST_END = 0.55, 0.9
"""How much of an outer window's width is left when its outer end is drawn in."""

JUST_LESS, JUST_MORE = 0.49, 0.51
"""Share of a step within which a draw is still rounded to a value, and no longer is."""

AT_ONCE = 2**18
"""Values that are drawn together, in whole windows."""

FITS = 3
"""Rounds of giving draws their mean and variance, and turning back those that left the range of the column."""


def smoothed(ascending: Array, window: int, tail_group: int, stream: Stream) -> Array:
    """New values of a column (rows) whose values come in ascending order.

    Values that `tail_group` records or more share stay. The others are drawn anew in windows of half to one and a half
    times `window` values, on the column's step. The very largest value (and the smallest) is never released, unless it
    is shared so. Fewer than `tail_group` values among shared ones take the nearest of these, even if the column becomes
    constant; but a rare flag, or a scale whose values are one step from each other, has no value that is not known,
    and stays as it is. A column without so many values at both ends becomes its mean.
    """
    domain = Domain(step=step_of(ascending))
    if ascending.size < 2 * tail_group:
        return np.full(ascending.size, domain.rounded(ascending.mean(keepdims=True))[0])
    shared = _shared(ascending, tail_group)
    values = ascending.copy()
    generator = stream.generator()
    for first, last, run in _groups(ascending, shared, window):
        own = ascending[run]
        if own.size < tail_group:
            values[run] = _nearest(own, ascending[shared])
            continue
        windows = _Windows.of(own, _cuts(own.size, window, tail_group, generator))
        windows = windows.drawn_in((first == 0, last == ascending.size - 1), domain.step, generator)
        room = values[run]
        windows.draw(generator, room)
        values[run] = domain.rounded(room)
    values.sort(kind="stable")  # which is fast where most values stand near their places
    values += 0.0  # no -0.0
    is_scale = domain.step is not None and (np.diff(np.unique(ascending)) < (1 + JUST_LESS) * domain.step).all()
    return ascending.copy() if values[0] == values[-1] and is_scale else values


def _shared(ascending: Array, least: int) -> Mask:
    """Which values at least so many records have."""
    apart = ascending[1:] != ascending[:-1]
    if apart.all():  # a long column takes no room for its counts
        return np.zeros(ascending.size, dtype=bool)
    starts = np.flatnonzero(np.r_[True, apart])
    sizes = np.diff(np.r_[starts, ascending.size])
    return np.repeat(sizes >= least, sizes)


def _nearest(values: Array, places: Array) -> Array:
    """The nearest of the places, which come in ascending order, to each value."""
    after = np.searchsorted(places, values).clip(1, places.size - 1)
    low, high = places[after - 1], places[after]
    nearest: Array = np.where(values - low <= high - values, low, high)
    return nearest


def _groups(ascending: Array, shared: Mask, window: int) -> list[tuple[int, int, Index | slice]]:
    """The places of values that are drawn anew, in groups of neighbours: the first, the last and all of each group.

    Values with more than a window of shared ones between them are no neighbours; nor are those on both sides of zero
    where zero is shared, so that signs stay.
    """
    if not shared.any():
        return [(0, ascending.size - 1, slice(0, ascending.size))]
    places = np.flatnonzero(~shared)
    apart = np.diff(places) > window
    if (ascending[shared] == 0).any():
        apart |= np.diff(ascending[places] > 0)
    groups = [group for group in np.split(places, np.flatnonzero(apart) + 1) if group.size]
    return [_as_run(group) for group in groups]


def _as_run(places: Index) -> tuple[int, int, Index | slice]:
    """The first and the last of places in ascending order, and all; as a slice, which takes no copy, if all are in."""
    first, last = int(places[0]), int(places[-1])
    return first, last, slice(first, last + 1) if last - first + 1 == places.size else places.copy()


@dataclass(frozen=True, repr=False)
class _Windows:
    """Windows of sorted values: where each starts, its ends halfway to its neighbours, and which of them is outer."""

    values: Array
    starts: Index
    low: Array
    high: Array
    upper: Mask

    @classmethod
    def of(cls, values: Array, starts: Index) -> _Windows:
        """Sorted values, cut where windows start."""
        cut = starts[1:]
        halfway = (values[cut - 1] + values[cut]) / 2
        low, high = np.r_[values[0], halfway], np.r_[halfway, values[-1]]
        median = values[(values.size - 1) // 2 : values.size // 2 + 1].mean()
        return cls(values, starts, low, high, low + high >= 2 * median)

    def drawn_in(self, outer: tuple[bool, bool], step: float | None, generator: np.random.Generator) -> _Windows:
        """The same with the ends of the column nearer, by random shares: they are not to tell the farthest records.

        An end can come in as far as the mean and the variance of its window allow, to where all values would stand at
        one end or the other. On a step, no value is rounded to the end. Ends that are none of the column's stay; but
        on a step they have the share of values that is rounded to them.
        """
        low, high = self.low.copy(), self.high.copy()
        outermost = (self._some(own)[1]._measured() for own in (slice(0, 1), slice(self.starts.size - 1, None)))
        mean, spread, _, by_squares = (np.concatenate(figures) for figures in zip(*outermost, strict=True))
        spread = np.where(by_squares, 0.0, spread)
        for number, near, far, drawn in ((-1, low, high, outer[1]), (0, high, low, outer[0])):
            end, inside, width = far[number], mean[number] - near[number], far[number] - near[number]
            outward = 1.0 if far is high else -1.0
            if not drawn:
                far[number] += outward * JUST_LESS * (step or 0.0)
            elif inside:
                nearest = min(max(LEAST_END, (inside + spread[number] ** 2 / inside) / width), MOST_END)
                far[number] = near[number] + (nearest + (MOST_END - nearest) * generator.random()) * width
                if step is not None and outward * (end - far[number]) < JUST_MORE * step:
                    far[number] = end - outward * JUST_MORE * step
        return replace(self, low=low, high=high)

    @property
    def sizes(self) -> Index:
        """How many values each window has."""
        sizes: Index = np.diff(np.r_[self.starts, self.values.size])
        return sizes

    def each(self, per_window: Array) -> Array:
        """For each value, the figure of its window."""
        return np.repeat(per_window, self.sizes)

    def mean(self, values: Array) -> Array:
        """The mean of the values in each window."""
        return np.add.reduceat(values, self.starts) / self.sizes

    def spread(self, values: Array, means: Array) -> Array:
        """Their standard deviations."""
        return np.sqrt(self.mean(np.square(values - self.each(means))))

    def dominated(self) -> tuple[Mask, Mask]:
        """In which windows the sum, and the sum of squares, would tell the value that stands out most.

        Contributions are what values have beyond the inner end of their window: everyone knows that they have at least
        that, as the next window is released as well.
        """
        upper, last = self.upper, self.starts + self.sizes - 1
        excess = np.abs(self.values - self.each(np.where(upper, self.low, self.high)))
        largest = np.where(upper, excess[last], excess[self.starts])
        second = np.where(upper, excess[last - 1], excess[self.starts + 1])
        rest = np.add.reduceat(excess, self.starts) - largest - second
        squares = np.add.reduceat(np.square(excess), self.starts) - np.square(largest) - np.square(second)
        return rest < DOMINATED * largest, squares < 2 * DOMINATED * np.square(largest)

    def _parts(self) -> Iterator[tuple[slice, slice, _Windows]]:
        """Some windows at a time: which windows and values they are, and the windows themselves."""
        firsts = np.unique(np.searchsorted(self.starts, np.arange(0, self.values.size, AT_ONCE), "right") - 1)
        for first, last in pairwise([*firsts.tolist(), self.starts.size]):
            own = slice(first, last)
            yield own, *self._some(own)

    def _some(self, own: slice) -> tuple[slice, _Windows]:
        """Some of the windows: which values they have, and the windows themselves."""
        borders = np.append(self.starts, self.values.size)[own.start : (own.stop or self.starts.size) + 1]
        rows = slice(int(borders[0]), int(borders[-1]))
        ends = self.low[own], self.high[own]
        return rows, _Windows(self.values[rows], self.starts[own] - rows.start, *ends, self.upper[own])

    def _measured(self) -> tuple[Array, Array, Mask, Mask]:
        """The mean and the spread of each window, and where the sum, and the sum of squares, would tell a value."""
        found = []
        for _, _, part in self._parts():
            mean = part.mean(part.values)
            found.append((mean, part.spread(part.values, mean), *part.dominated()))
        mean, spread, by_sum, by_squares = (np.concatenate(figures) for figures in zip(*found, strict=True))
        return mean, spread, by_sum, by_squares

    def draw(self, generator: np.random.Generator, out: Array) -> None:
        """New values into `out`, from a beta distribution in each window, with its mean and spread where no record
        dominates.
        """
        mean, spread, by_sum, by_squares = self._measured()
        width = np.maximum(self.high - self.low, np.finfo(float).tiny)
        place = ((mean - self.low) / width).clip(0.0, 1.0)
        with np.errstate(divide="ignore"):
            concentration = place * (1 - place) / np.square(spread / width) - 1
            if place.size > 1:  # draws do not heap up at the ends of the column, which are drawn in
                ends = np.r_[place[0], np.full(place.size - 2, np.inf), 1 - place[-1]]
                concentration = np.maximum(concentration, 1 / ends)
        concentration = concentration.clip(FLATTEST, SHARPEST)
        shapes = [np.maximum(part * concentration, LEAST_SHAPE) for part in (place, 1 - place)]
        bounds = self.low[0], self.high[-1]
        for own, rows, part in self._parts():
            drawn = part.each(part.low) + part.each(width[own]) * generator.beta(*(part.each(of[own]) for of in shapes))
            free = by_sum[own], by_squares[own]
            out[rows] = part._fitted(drawn, mean[own], spread[own], free, bounds)

    def _fitted(
        self, drawn: Array, mean: Array, spread: Array, free: tuple[Mask, Mask], bounds: tuple[float, float]
    ) -> Array:
        """Draws with the mean and the spread of each window, but where one is `free`, within the `bounds` of all."""
        (by_sum, by_squares), (low, high) = free, bounds
        for _ in range(FITS):
            now = self.mean(drawn)
            wide = self.spread(drawn, now)
            stretch = np.where(by_squares | (wide == 0), 1.0, spread / np.where(wide == 0, 1.0, wide))
            centre = np.where(by_sum, now, mean)
            drawn = self.each(centre) + self.each(stretch) * (drawn - self.each(now))
            # What left the range of the column is turned back: cut off, it would stand at the ends, which are values.
            drawn = np.where(drawn < low, 2 * low - drawn, drawn)
            drawn = np.where(drawn > high, 2 * high - drawn, drawn).clip(low, high)
        return drawn


def _cuts(size: int, window: int, least: int, generator: np.random.Generator) -> Index:
    """Where windows of random size start; the outer ones are wider, as values are far apart there."""
    smallest = max(window // 2, least)
    largest = max(3 * window // 2, smallest)
    most = max(min(OUTER * largest, int(OUTER_SHARE * size)), smallest)
    first, last = generator.integers(max(min(OUTER * smallest, most // 2), smallest), most + 1, size=2)
    inner = first + np.r_[0, np.cumsum(generator.integers(smallest, largest + 1, size=size // smallest + 1))]
    inner = inner[inner <= size - last - smallest]
    starts = np.r_[0, inner, size - last]
    return starts if inner.size else np.array([0] if size < 2 * smallest else [0, size // 2])
