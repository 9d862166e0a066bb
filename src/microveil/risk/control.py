"""An attack beside its control: what does the release tell of *these* people, beyond what it tells of everybody?

A release that is of any use lets one guess: who knows that turnover and profit go together guesses the profit of a firm
that was never asked. That is what statistics are for. So the attacks on singling out, linkability and inference (the
three of the Article 29 Working Party's opinion WP216) are run three times, as in anonymeter (Giomi et al. 2023):

- the attack: on the originals, with the release;
- the control: on people of whom the release knows nothing. If there is a control file (originals that did not enter the
  release) it is attacked with the release. Without one, the originals take the place of the release, and each record is
  attacked by means of all *others*: the best that population knowledge alone could give (for singling out, which looks
  at whole files, one half of the originals by means of the other half);
- luck: on the originals, with a release whose columns have been shuffled one by one, so that only they themselves are
  known, and nothing that relates them.

The risk is what the attack gets right that the control does not, (a - c) / (1 - c): 0 if the release is no more use
against its own people than against others, 1 if it gives everything away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import Reading, check_comparable, standardised
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.risk.neighbours import Index
from microveil.risk.shares import CONFIDENCE, Tally, sampled_rows

Success = Callable[[Array, Array, Index | None], Tally]
"""An attack by means of a source on targets. The third says which rows of the source the targets are, if they stand in
it for the control's sake: a target must then not be found by its own row."""

NO_POWER = "the attack had no power: with shuffled columns it does as well"


@dataclass(frozen=True)
class Outcome:
    """How often the attack was right, its control, and luck."""

    attack: Tally
    control: Tally
    luck: Tally

    @property
    def beyond(self) -> float:
        """What the attack gets right that the control does not; below 0 if the control is better."""
        return _beyond(self.attack.share, self.control.share)

    def reading(self, *, best_of: int = 1, note: str = "", parts: Mapping[str, float] | None = None) -> Reading:
        """The figure; `best_of` is the number of attacks of which this was the best, which widens the interval.

        The ends come from Wilson's of both shares, put together as for independent errors (Donner and Zou 2012). As
        what is negative counts as 0, luck alone gives a little more than 0: that is the chance level.
        """
        shares = self.attack.share, self.control.share
        confidence = 1 - (1 - CONFIDENCE) / best_of
        (low, high), (least, most) = self.attack.interval(confidence), self.control.interval(confidence)
        value = self.beyond
        down = np.hypot(value - _beyond(low, shares[1]), value - _beyond(shares[0], most))
        up = np.hypot(_beyond(high, shares[1]) - value, _beyond(shares[0], least) - value)
        return Reading(
            max(value, 0.0),
            max(value - float(down), 0.0),
            min(max(value + float(up), 0.0), 1.0),
            min(_best_of_errors(best_of) * self._error(), 1.0),
            note="; ".join(sentence for sentence in (note, self._remark()) if sentence),
            parts={"attack": shares[0], "control": shares[1], "luck": self.luck.share, **(parts or {})},
        )

    def _error(self) -> float:
        """The standard error of the figure if attack and control are equally good."""
        share = (self.control.hits + 1) / (self.control.tries + 2)
        variance = share * (1 - share) * (1 / max(self.attack.tries, 1) + 1 / max(self.control.tries, 1))
        return float(np.sqrt(variance) / (1 - share))

    def _remark(self) -> str:
        if not self.attack.tries:
            return "the attack had no power: there was nothing to try"
        if self.attack.interval()[0] <= self.luck.share:
            return NO_POWER
        return "the control was told everything too" if self.control.share >= 1 else ""


@dataclass(frozen=True, repr=False)
class Trial:
    """Both files and the control, in standard deviations of the original, ready for an attack of any kind.

    Rows are put in the order of their values, so that a draw means the same record however the files are sorted.
    """

    original: Array
    released: Array
    shuffled: Array
    control: Array | None
    tried: Index

    @classmethod
    def of(
        cls, original: Matrix, released: Matrix, control: Matrix | None, seed: int | None, *, pairs: int | None = None
    ) -> Trial:
        """`pairs` limits the number of targets, as in `sampled_rows`; without it all are."""
        before, after = (_sorted(side) for side in standardised(original, released))
        beside = None
        if control is not None:
            check_comparable(original, control, paired=False)
            beside = _sorted(standardised(original, control)[1])
        stream = Streams.from_seed(seed).stream("shuffled release")
        tried = np.arange(len(before)) if pairs is None else sampled_rows(len(before), seed, pairs=pairs)
        if beside is not None and pairs is not None:
            beside = beside[sampled_rows(len(beside), seed, pairs=pairs)]
        return cls(before, after, shuffled(after, stream), beside, tried)

    def run(self, attack: Success) -> Outcome:
        """The attack, its control, and luck."""
        targets = self.original[self.tried]
        control: tuple[Array, Array, Index | None] = (self.original, targets, self.tried)
        if self.control is not None:
            control = self.released, self.control, None
        return Outcome(attack(self.released, targets, None), attack(*control), attack(self.shuffled, targets, None))

    @property
    def sample(self) -> str:
        """A sentence, if not all originals were tried."""
        tried, count = self.tried.size, len(self.original)
        return f"an estimate from {tried} of {count} records, drawn at random" if tried < count else ""


def shuffled(values: Array, stream: Stream) -> Array:
    """Every column in an order of its own."""
    return np.column_stack([stream.generator(j).permutation(column) for j, column in enumerate(values.T)])


def _sorted(values: Array) -> Array:
    return values[np.lexsort(values.T[::-1])]


def _beyond(attack: float, control: float) -> float:
    return 1 - (1 - attack) / (1 - control) if control < 1 else 0.0


def _best_of_errors(count: int) -> float:
    """E max(0, the largest of so many independent standard normal errors)."""
    from scipy.special import ndtr

    at = np.linspace(0, 8, 801)
    return float(np.trapezoid(1 - ndtr(at) ** count, at))
