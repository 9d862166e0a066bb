"""Inference: the intruder knows all about somebody but one thing, and asks the release for it.

The intruder has the values of a record in all columns but one (the size of a firm, its branch, its turnover), wants the
last (its profit), and lets the release guess it: by the released record that is nearest in the known columns, by a vote
of several, or by a regression on all of them. Nobody expects the very number. A guess is right if, in rank, it is
within 5 % of the records from the true value. Ranks rise evenly between two values that occur, so that half a child is
as far from one as from none.

Missing cells of what is known are set to the middle of their column; a missing secret is not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, check_sensitive, scales
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.nearest.standardisation import axes_of
from microveil.measures.risk.control import AttackOutcome, Trial, best_by_luck
from microveil.measures.risk.proportions import PAIRS, Tally, attack, note_of

WITHIN = 0.05
VOTERS = 5
PAIRS_PER_COLUMN = PAIRS // 20

TOUCHING = 1e-9
"""Distance (in standard deviations) of a voter from whom on its vote no longer grows: it decides alone there."""

Guesser = Callable[[Array, Array, Array, Index | None], Array]
"""Guesses of a secret: from known columns and secrets of a source, for what is known of the targets. The last says
which rows of the source the targets are, if they stand in it, so that none guesses by its own."""


@attack(
    "share of values that the nearest released record gives away to one who knows the rest of a record, beyond a "
    "control"
)
def inference(
    original: Matrix, released: Matrix, *, control: Matrix | None = None, seed: int | None = None
) -> Estimate:
    """Inference, the third risk of WP216.

    Each column is in turn the secret one, and the guess is that of the released record which is nearest in all others.
    The figure is the mean over the columns of what is guessed right, beyond the control: a control file, or the
    nearest *other* original.
    """
    trial = Trial.of(original, released, control, seed, pairs=PAIRS_PER_COLUMN)
    columns = list(scales(original))
    _check_enough(len(columns))
    found = [trial.run(_secret(trial, j, by_vote(1))) for j in range(len(columns))]
    shares = {f"column {number}": outcome.attack.share for number, outcome in zip(columns, found, strict=True)}
    return _of_each_kind(found, _mean).estimate(note=trial.sample, parts=shares)


@attack(
    "share of values of the worst column that a regression or a vote of released records gives away, beyond a control"
)
def attribute_inference(
    original: Matrix,
    released: Matrix,
    *,
    sensitive: Sequence[int] | None = None,
    control: Matrix | None = None,
    seed: int | None = None,
) -> Estimate:
    """Inference by whatever predicts best, for the column that it predicts best.

    The intruder tries two ways for each column (or each `sensitive` one): a linear regression on all other columns,
    learnt from the release, and the vote of the five nearest released records, each with the weight of its inverse
    squared distance. The better one counts, and so it does for the control: a control file, or the same two learnt from
    all *other* originals (for the regression by leaving one out in closed form). The figure is that of the column where
    attack and control are farthest apart; all columns are in the parts. As the worst of several is taken, the interval
    is widened (Bonferroni), and chance is that of the worst of so many: of columns that hang together as these do, or
    independent ones if there is a control file.
    """
    trial = Trial.of(original, released, control, seed, pairs=PAIRS_PER_COLUMN)
    places = {number: place for place, number in enumerate(scales(original))}
    check_sensitive(sensitive, original.shape[1])
    asked = [number for number in places if sensitive is None or number in sensitive]
    _check_enough(len(places) if asked else 0)
    found = {
        number: _of_each_kind(
            [trial.run(_secret(trial, places[number], guess)) for guess in (by_regression, by_vote(VOTERS))],
            lambda tallies: max(tallies, key=lambda tally: tally.share),  # each by the way that is best for it
        )
        for number in asked
    }
    worst = max(found, key=lambda number: found[number].beyond)
    note = note_of(trial.sample, f"the worst is column {worst} (from 0)")
    shares = {f"column {number}": max(outcome.beyond, 0.0) for number, outcome in found.items()}
    chance = best_by_luck(list(found.values()), Streams.from_seed(seed).stream("errors by luck"))
    return found[worst].estimate(best_of=len(found), chance=chance, note=note, parts=shares)


@dataclass(frozen=True, repr=False)
class Ranks:
    """The ranks of a column's values: equal ones share a mean rank, and between two values it rises evenly."""

    values: Array
    places: Array
    count: int

    @classmethod
    def of(cls, column: Array) -> Ranks:
        """From a column with NaN where cells are missing."""
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        return cls(values, np.cumsum(counts) - counts / 2, int(counts.sum()))

    def are_near(self, truth: Array, guesses: Array) -> Mask:
        """Are the guesses within 5 % of the records from the truth? One that is missing is not."""
        gap = np.abs(np.interp(guesses, self.values, self.places) - np.interp(truth, self.values, self.places))
        return gap <= WITHIN * self.count + 1e-6  # a rank is a number of records, up to round-off


def _check_enough(columns: int) -> None:
    if columns < 2:
        raise DataError("inference needs two columns that vary", "there must be one to know and one to guess")


def _of_each_kind(found: Sequence[AttackOutcome], summary: Callable[[list[Tally]], Tally]) -> AttackOutcome:
    """One outcome of many: their attacks, controls and lucks summed up."""
    kinds = zip(*((outcome.attack, outcome.control, outcome.luck) for outcome in found), strict=True)
    attack, control, luck = (summary(list(tallies)) for tallies in kinds)
    return AttackOutcome(attack, control, luck, found[0].paired)


def _mean(tallies: Sequence[Tally]) -> Tally:
    """The mean share over columns. A record counts as one try: its values are not independent of each other."""
    tries = max(tally.tries for tally in tallies)
    shares = [tally.each for tally in tallies if tally.each is not None]
    return Tally(
        float(np.mean([tally.share for tally in tallies])) * tries,
        tries,
        np.mean(shares, axis=0) if len(shares) == len(tallies) else None,
    )


def _secret(trial: Trial, column: int, guess: Guesser) -> Callable[[Array, Array, Index | None], Tally]:
    """The attack on one column."""
    return partial(_guessed, column=column, guess=guess, ranks=Ranks.of(trial.original[:, column]))


def _guessed(source: Array, targets: Array, own: Index | None, *, column: int, guess: Guesser, ranks: Ranks) -> Tally:
    """How many targets' secrets (one `column`) the source gives away by a `guess` that is near in `ranks`.

    `source` and `targets` are records x columns, `own` the rows of the source that the targets are, if they are in it.
    """
    usable, asked = ~np.isnan(source[:, column]), ~np.isnan(targets[:, column])
    each = np.zeros(len(targets))
    if not usable.any() or not asked.any():
        return Tally(0.0, int(asked.sum()), each)
    if own is not None:
        own = (np.cumsum(usable) - 1)[own[asked]]
    known, needed = (np.nan_to_num(np.delete(side, column, axis=1)) for side in (source[usable], targets[asked]))
    guesses = guess(known, source[usable, column], needed, own)
    right, tries = ranks.are_near(targets[asked, column], guesses), int(asked.sum())
    each[asked] = right * (len(targets) / tries)
    return Tally(float(right.sum()), tries, each)


def by_regression(known: Array, secret: Array, needed: Array, own: Index | None) -> Array:
    """Least squares; each of the source's own rows by the regression on all others, from its leverage.

    `known` (n x k) and `secret` (n) are the source's, `needed` (m x k) what is known of the targets, `own` as above.
    """
    centre, mean = known.mean(axis=0), secret.mean()
    axes = axes_of((known - centre).T @ (known - centre))
    scores = (known - centre) @ axes
    guesses: Array = mean + (needed - centre) @ (axes @ (scores.T @ (secret - mean)))
    if own is None:
        return guesses
    rest = 1 - 1 / len(known) - np.square(scores[own]).sum(axis=1)
    left_out: Array = secret[own] - np.divide(
        secret[own] - guesses, rest, out=np.full(own.size, np.nan), where=rest > 1e-9
    )
    return left_out


def by_vote(voters: int) -> Guesser:
    """The mean of so many nearest records, with weights of the inverse squared distance."""

    def vote(known: Array, secret: Array, needed: Array, own: Index | None) -> Array:
        """The guesses; arguments as in `by_regression`."""
        which, distance = nearest(needed, known, voters if own is None else voters + 1)
        weights = 1 / np.square(np.maximum(distance, TOUCHING))
        if own is not None:
            itself = which == own[:, None]
            itself[:, -1] |= ~itself.any(axis=1)  # as many as elsewhere, though it was not among them
            weights[itself] = 0.0
        total = weights.sum(axis=1)
        votes = (weights * secret[which]).sum(axis=1)
        guesses: Array = np.divide(votes, total, out=np.full(total.size, np.nan), where=total > 0)
        return guesses

    return vote
