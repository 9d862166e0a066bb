"""An attack and its control: what does the release say of *these* people, beyond what it says of everybody?

A useful release lets one guess: who knows that turnover and profit go together guesses the profit of a firm that was
never asked. That is what statistics are for. So the attacks on singling out, linkability and inference (the three of
the Article 29 Working Party's opinion WP216) run three times, as in anonymeter (Giomi et al. 2023):

- the attack: on the originals, with the release;
- the control: on people of whom the release knows nothing. A control file (originals that did not enter the release) is
  attacked with the release. Without one, the originals take the place of the release, and each record is attacked by
  means of all *others*: the best that population knowledge alone could give (for singling out, which looks at whole
  files, one half of the originals by means of the other half);
- luck: on the originals, with a release whose columns have been shuffled one by one, so that nothing relates them.

The risk is what the attack gets right that the control does not, (a - c) / (1 - c): 0 if the release is no more use
against its own people than against others, 1 if it gives everything away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, check_comparable, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.risk.proportions import CONFIDENCE, Tally, note_of, sample_note, sampled_rows

Success = Callable[[Array, Array, Index | None], Tally]
"""An attack by means of a source on targets. The third says which rows of the source the targets are, if they stand in
it for the control's sake: a target must then not be found by its own row."""

NO_POWER = "the attack had no power: with shuffled columns it does as well"


DRAWS = 10_000
"""Errors drawn for the chance level of the best of several."""


@dataclass(frozen=True)
class AttackOutcome:
    """How often the attack was right, its control, and luck; `paired` if attack and control have the same targets."""

    attack: Tally
    control: Tally
    luck: Tally
    paired: bool = False

    @property
    def beyond(self) -> float:
        """What the attack gets right that the control does not; below 0 if the control is better."""
        return _beyond(self.attack.share, self.control.share)

    @property
    def gaps(self) -> Array | None:
        """What the attack got of each target beyond the control, if both had the same targets and say so."""
        if not self.paired or self.attack.each is None or self.control.each is None:
            return None
        return self.attack.each - self.control.each

    def estimate(
        self,
        *,
        best_of: int = 1,
        chance: float | None = None,
        note: str = "",
        parts: Mapping[str, float] | None = None,
    ) -> Estimate:
        """The figure, with a `note` and `parts`; `best_of` attacks this was the best, which widens the interval.

        Wilson's intervals of both shares are put together as for errors with the correlation of what attack and control
        got of the same targets (Donner and Zou 2012). As what is negative counts as 0, luck alone gives a little more
        than 0: that is the `chance` level, unless one is given.
        """
        shares = self.attack.share, self.control.share
        confidence = 1 - (1 - CONFIDENCE) / best_of
        (low, high), (least, most) = self.attack.interval(confidence), self.control.interval(confidence)
        value, together = self.beyond, self._correlation()
        down = _length(value - _beyond(low, shares[1]), value - _beyond(shares[0], most), together)
        up = _length(_beyond(high, shares[1]) - value, _beyond(shares[0], least) - value, together)
        return Estimate(
            max(value, 0.0),
            max(value - down, 0.0),
            min(max(value + up, 0.0), 1.0),
            min(_best_of_errors(best_of) * self.error if chance is None else chance, 1.0),
            note=note_of(note, self._remark()),
            parts={"attack": shares[0], "control": shares[1], "luck": self.luck.share, **(parts or {})},
        )

    @property
    def error(self) -> float:
        """The standard error of the figure if attack and control are equally good."""
        share, gaps = self.smoothed, self.gaps
        if gaps is not None:
            return float(np.sqrt(np.square(gaps).sum() + 1) / gaps.size / (1 - share))
        variance = share * (1 - share) * (1 / max(self.attack.tries, 1) + 1 / max(self.control.tries, 1))
        return float(np.sqrt(variance) / (1 - share))

    @property
    def smoothed(self) -> float:
        """The control's share, with a hit and a miss more, so that it is neither 0 nor 1."""
        return (self.control.hits + 1) / (self.control.tries + 2)

    def _correlation(self) -> float:
        """Of what attack and control got of a target; what is below 0 counts as 0 (Newcombe 1998)."""
        attack, control = self.attack.each, self.control.each
        if not self.paired or attack is None or control is None or not attack.std() or not control.std():
            return 0.0
        return max(float(np.corrcoef(attack, control)[0, 1]), 0.0)

    def _remark(self) -> str:
        if not self.attack.tries:
            return "the attack had no power: there was nothing to try"
        if self.attack.interval()[0] <= self.luck.share:
            return NO_POWER
        return "the control learnt everything too" if self.control.share >= 1 else ""


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
        others = None
        if control is not None:
            check_comparable(original, control, paired=False)
            others = _sorted(standardised(original, control)[1])
        stream = Streams.from_seed(seed).stream("shuffled release")
        tried = np.arange(len(before)) if pairs is None else sampled_rows(len(before), seed, pairs=pairs)
        if others is not None and pairs is not None:
            others = others[sampled_rows(len(others), seed, pairs=pairs)]
        return cls(before, after, shuffled(after, stream), others, tried)

    def run(self, attack: Success) -> AttackOutcome:
        """The attack, its control, and luck."""
        targets = self.original[self.tried]
        control: tuple[Array, Array, Index | None] = (self.original, targets, self.tried)
        if self.control is not None:
            control = self.released, self.control, None
        found = attack(self.released, targets, None), attack(*control), attack(self.shuffled, targets, None)
        return AttackOutcome(*found, paired=self.control is None)

    @property
    def sample(self) -> str:
        """A sentence, if not all originals were tried."""
        return sample_note(self.tried.size, len(self.original))


def shuffled(values: Array, stream: Stream) -> Array:
    """Every column in an order of its own."""
    return np.column_stack([stream.generator(j).permutation(column) for j, column in enumerate(values.T)])


def _sorted(values: Array) -> Array:
    return values[np.lexsort(values.T[::-1])]


def _beyond(attack: float, control: float) -> float:
    return 1 - (1 - attack) / (1 - control) if control < 1 else 0.0


def _length(first: float, second: float, correlation: float) -> float:
    """The length of two errors together that partly cancel out."""
    square = first**2 + second**2 - 2 * correlation * first * second
    return float(np.sqrt(max(square, 0.0)))


def best_by_luck(found: Sequence[AttackOutcome], stream: Stream) -> float | None:
    """E max(0, the largest of these figures) if attack and control are equally good; None if targets are not the same.

    The figures of several columns hang together, as they are of the same people. So errors are drawn that have the
    covariances of what attack and control got of each.
    """
    scaled = [outcome.gaps / (1 - outcome.smoothed) for outcome in found if outcome.gaps is not None]
    if len(scaled) < len(found):
        return None
    each = np.column_stack(scaled)
    covariance = each.T @ each / len(each) ** 2
    covariance[np.diag_indices_from(covariance)] = [outcome.error**2 for outcome in found]
    return expected_best(covariance, stream)


def expected_best(covariance: Array, stream: Stream) -> float:
    """E max(0, the largest) of normal errors with this covariance."""
    zeros = np.zeros(len(covariance))
    errors = stream.generator().multivariate_normal(zeros, covariance, size=DRAWS, method="eigh")
    return float(errors.max(axis=1).clip(0.0).mean())


def _best_of_errors(count: int) -> float:
    """E max(0, the largest of so many independent standard normal errors)."""
    from scipy.special import ndtr

    at = np.linspace(0, 8, 801)
    return float(np.trapezoid(1 - ndtr(at) ** count, at))
