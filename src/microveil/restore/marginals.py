"""Marginals: each released column gets the values it had, in the order the release has put them.

What the perturbation says is which record is small and which is large; the values come from the original column,
so sign, bounds, whole numbers, zeros and heaps survive. `original` gives back exactly the old values. `smoothed`
hides them: at both ends they are averaged in groups, between them each moves within the gap to its neighbours.
`stratified` draws one value from each n-th of the distribution (Latin hypercube sampling).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from microveil.core.arrays import Array, Mask
from microveil.core.domain import Domain, step_of
from microveil.core.parameters import Step
from microveil.core.rng import Stream

Kind = Literal["free", "original", "smoothed", "stratified"]

GROUPS = 4
"""A column of fewer values than this many tail groups has no middle, and is left free instead of smoothed."""


class Marginals(Step):
    """Give each column back its own distribution: exactly, or with the extremes blurred.

    Values are assigned by rank (reverse mapping), then exchanged between records until the moments and the rank
    correlations of the original come back.
    """

    marginals: Annotated[
        Kind,
        Field(
            description="the values of a released column: free, its original ones in another order, smoothed ones "
            "(the extremes averaged, the rest moved within their gaps), or drawn from each n-th of its distribution",
            json_schema_extra={"allowed": "free, original, smoothed or stratified"},
        ),
    ] = "free"
    exchange: Annotated[
        bool,
        Field(description="then exchange values between records until correlations and rank correlations return"),
    ] = True
    tail_group: Annotated[
        int,
        Field(ge=2, description="how many of the largest (and of the smallest) values are averaged when smoothed"),
    ] = 5

    @model_validator(mode="after")
    def _what_goes_with_what(self) -> Self:
        if self.marginals != "smoothed" and self.tail_group != type(self).model_fields["tail_group"].default:
            raise ValueError("tail_group goes with marginals='smoothed' only")
        if self.marginals == "free" and not self.exchange:
            raise ValueError("exchange goes with marginals other than 'free' only")
        return self

    def smooths(self, count: int) -> bool:
        """Are there enough values to smooth?"""
        return count >= GROUPS * self.tail_group

    def of(self, column: Array, present: Mask | None, stream: Stream) -> Marginal:
        """The values the released column will have; the cells that are not present have values of their own."""
        if present is None or present.all():
            return Marginal(self._values(np.sort(column), stream))
        return Marginal(self._values(np.sort(column[present]), stream), np.sort(column[~present]), present)

    def _values(self, ascending: Array, stream: Stream) -> Array:
        if self.marginals == "smoothed":
            return smoothed(ascending, self.tail_group, stream)
        return stratified(ascending, stream) if self.marginals == "stratified" else ascending


@dataclass(frozen=True, repr=False)
class Marginal:
    """The values of a released column in ascending order, and those of its missing cells, which nobody will see."""

    values: Array
    unseen: Array | None = None
    present: Mask | None = None

    def in_order_of(self, column: NDArray[np.floating[Any]]) -> Array:
        """The values in the order that another column has: its smallest cell gets the smallest value, and so on."""
        out = column.astype(np.float64)
        self.put_in_order_of(out)
        return out

    def put_in_order_of(self, column: Array) -> None:
        """The same, in the place of the other column."""
        if self.present is None or self.unseen is None:
            column[np.argsort(column, kind="stable")] = self.values
            return
        for cells, values in ((self.present, self.values), (~self.present, self.unseen)):
            rows = np.flatnonzero(cells)
            column[rows[np.argsort(column[rows], kind="stable")]] = values


def smoothed(ascending: Array, tail_group: int, stream: Stream) -> Array:
    """Values that tell as much about the column, and none about a single record.

    The `tail_group` smallest and largest values become their average, or a place near it (`_tail`); between them, a
    value that occurs once moves to a random place nearer to it than to its neighbours. Values that several records
    share stay, and so does the step of the column. A tail whose values are all the same is no secret of anyone, and
    stays too. A column without so many values at both ends becomes its mean; one that would be constant for another
    reason, such as a rare flag, has no value that is not known, and stays as it is.
    """
    domain = Domain(step=step_of(ascending))
    if ascending.size < 2 * tail_group:
        return np.full(ascending.size, domain.rounded(ascending.mean(keepdims=True))[0])
    halfway = (ascending[:-1] + ascending[1:]) / 2
    low, high = np.r_[ascending[0], halfway], np.r_[halfway, ascending[-1]]
    moved = domain.rounded(low + (high - low) * stream.uniform(ascending.size))
    repeated = ascending[1:] == ascending[:-1]
    stays = np.r_[False, repeated] | np.r_[repeated, False] | (moved < low) | (moved > high)
    values: Array = np.where(stays, ascending, moved)
    smallest, largest = -_tail(-ascending[::-1], tail_group, domain), _tail(ascending, tail_group, domain)
    values[: smallest.size], values[-largest.size :] = smallest[::-1], largest
    values = np.sort(values) + 0.0  # no -0.0
    return values if values[0] < values[-1] else ascending.copy()


def stratified(ascending: Array, stream: Stream) -> Array:
    """A value from a random place in each n-th of the distribution, which runs straight from value to value."""
    levels = (np.arange(ascending.size) + stream.uniform(ascending.size)) / ascending.size
    return np.quantile(ascending, levels)


def _tail(ascending: Array, size: int, domain: Domain) -> Array:
    """The new values of the largest: their mean, or the place nearest to it that is none of theirs.

    Where whole numbers leave no such place between them, it is the place nearest to the mean that several records
    share, which is nobody's own; the very largest has to be shared by as many as are averaged. Where each number has
    one record, all come down to the next below.
    """
    tail = ascending[-size:]
    if tail[0] == tail[-1]:
        return tail
    mean = tail.mean()
    if domain.step is None:
        places = mean + (tail[-1] - mean) * np.arange(size + 1) / (size + 1)
    else:
        places = domain.rounded(mean + domain.step * np.arange(-size, size + 1))
        places = places[np.argsort(np.abs(places - mean), kind="stable")]
    free = places[(places > tail[0]) & (places < tail[-1]) & ~np.isin(places, tail)]
    if free.size:
        return np.full(size, free[0])
    if domain.step is None:
        return np.full(size, tail[0])
    own, sharing = np.unique(ascending[ascending >= tail[0]], return_counts=True)
    shared = own[sharing >= np.where(own < tail[-1], 2, size)]
    if shared.size:
        return np.full(size, shared[np.argmin(np.abs(shared - mean))])
    return np.full(size, domain.rounded(tail[:1] - domain.step)[0])
