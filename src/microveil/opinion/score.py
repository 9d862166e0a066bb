"""Mean opinion scores of stimuli, with intervals, and what hidden references got; observers are screened before.

Screening finds observers who did not attend, and whose ratings would blur the mean of the others.
Two rules, each once and on the whole panel, so that nobody's rejection depends on who went first.

ITU-R BT.500 (§2.3 of the annex on the analysis of results): for every stimulus the ratings have a mean, a standard
deviation S (divisor n - 1) and a kurtosis β2 = m4 / m2². Ratings at least 2 S above the mean are counted as P, as far
below as Q; where β2 is not in [2, 4], √20 S. An observer goes if (P + Q) / stimuli > 0.05 and |P - Q| / (P + Q) < 0.3:
often far off, and to both sides. It was made for people who see shifted scales, and misses most who rate at random.
So whoever correlates with the mean of all others by less than 0.7 goes too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.measures.base import plain
from microveil.opinion.ratings import Kind, Ratings
from microveil.opinion.session import Stimulus, panel

CONFIDENCE = 0.95

FEWEST = 6
"""Among five, nobody can be 2 S from the mean: the furthest that one of n can be is (n - 1) / √n."""

ADVISED = 15
"""Observers that BT.500 asks for."""

FEWEST_STIMULI = 8
"""Below, one in forty who rate at random would correlate by 0.7."""

OFTEN, BALANCED, AGREEMENT = 0.05, 0.3, 0.7

TOO_MANY = 1 / 3
"""Share of the panel from which on the stimuli are the likelier cause than the observers."""


@dataclass(frozen=True)
class Opinion:
    """The mean opinion score of a stimulus: mean, standard deviation and t-interval over the observers who rated it.

    The interval is that of a mean, and may reach beyond the scale. One observer has no interval, none has no mean.
    """

    stimulus: Stimulus
    observers: int
    mos: float | None
    sd: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        figures = {name: value for name, value in asdict(self).items() if name != "stimulus"}
        return {**{name: plain(value) for name, value in self.stimulus.model_dump().items()}, **figures}


@dataclass(frozen=True, repr=False)
class OpinionScores:
    """Mean opinion scores, measured: `opinions` of processed stimuli, `control` of hidden references.

    `rejected` says who does not count and why. Where the session was `simulated`, so are the scores.
    """

    kind: Kind
    opinions: tuple[Opinion, ...]
    control: tuple[Opinion, ...]
    rejected: Mapping[str, str]
    observers: int
    notes: list[str]
    simulated: bool

    def __repr__(self) -> str:
        """A summary."""
        by = f"{self.observers} {panel(self.simulated)}, {len(self.rejected)} rejected"
        return f"<OpinionScores ({self.kind}) of {len(self.opinions)} stimuli by {by}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "kind": self.kind,
            "simulated": self.simulated,
            "observers": self.observers,
            "rejected": dict(self.rejected),
            "stimuli": [opinion.to_dict() for opinion in self.opinions],
            "control": [opinion.to_dict() for opinion in self.control],
            "notes": list(self.notes),
        }


def score(ratings: Ratings, *, kind: str | None = None, screening: bool = True) -> OpinionScores:
    """Screen the observers, and average those who are left.

    `kind` is "difference", 100 - (reference - processed), or "processed"; by default the first, where there are both.
    """
    chosen = ratings.kind(kind)
    absent, people = set(ratings.absent), ratings.session.observers
    present = [i for i, observer in enumerate(people) if observer.id not in absent]
    names, opinions = [people[i].id for i in present], ratings.opinions(chosen)[present]
    if len(names) < 2:
        raise DataError(f"ratings: {len(names)} observers have rated", "a mean with an interval takes two")
    if not screening:
        screened = Screening({}, ["the observers were not screened"])
    elif len(names) < FEWEST:
        few = f"the observers were not screened: {len(names)} are too few, it takes {FEWEST}"
        screened = Screening({}, [few])
    else:
        screened = screen(opinions, names)
    kept = [i for i, name in enumerate(names) if name not in screened.rejected]
    if len(kept) < 2:
        raise DataError(
            f"ratings: {len(screened.rejected)} of {len(names)} observers are rejected, and {len(kept)} left",
            "look at the ratings; screening=False (--no-screening) takes them as they are",
        )
    found = [_opinion(*pair) for pair in zip(ratings.session.stimuli, opinions[kept].T, strict=True)]
    unrated = [opinion.stimulus.id for opinion in found if opinion.mos is None]
    return OpinionScores(
        kind=chosen,
        opinions=tuple(opinion for opinion in found if not opinion.stimulus.hidden),
        control=tuple(opinion for opinion in found if opinion.stimulus.hidden),
        rejected=screened.rejected,
        observers=len(kept),
        notes=[*ratings.notes(), *screened.notes, *([f"rated by nobody: {', '.join(unrated)}"] if unrated else [])],
        simulated=ratings.session.simulated,
    )


def _opinion(stimulus: Stimulus, column: Array) -> Opinion:
    from scipy.stats import t

    given = column[~np.isnan(column)]
    if given.size < 2:
        return Opinion(stimulus, given.size, float(given[0]) if given.size else None, None, None, None)
    mean, sd = float(given.mean()), float(given.std(ddof=1))
    reach = float(t.ppf((1 + CONFIDENCE) / 2, given.size - 1)) * sd / np.sqrt(given.size)
    return Opinion(stimulus, given.size, mean, sd, float(mean - reach), float(mean + reach))


@dataclass(frozen=True)
class Screening:
    """Who was rejected, with the reason; and what a reader must know."""

    rejected: dict[str, str]
    notes: list[str]


def screen(opinions: Array, names: Sequence[str]) -> Screening:
    """Observers (rows of opinions, NaN where missing) against the panel; refused where there are too few of them."""
    if len(names) < FEWEST:
        raise DataError(
            f"{len(names)} observers are too few to be screened",
            f"it takes {FEWEST}: among fewer, nobody can be 2 standard deviations from the mean",
        )
    above, below = outlying(opinions)
    rated = np.count_nonzero(~np.isnan(opinions), axis=1)
    agreement, comparable = agreements(opinions)
    rejected: dict[str, str] = {}
    for i, name in enumerate(names):
        reasons, far = [], above[i] + below[i]
        if far > OFTEN * rated[i] and abs(above[i] - below[i]) < BALANCED * far:
            reasons.append(f"BT.500: {above[i]} of {rated[i]} ratings far above the panel and {below[i]} far below")
        if comparable[i] >= FEWEST_STIMULI and np.isnan(agreement[i]):
            reasons.append("the ratings are all the same")
        elif comparable[i] >= FEWEST_STIMULI and agreement[i] < AGREEMENT:
            reasons.append(f"correlation with the other observers {agreement[i]:.2f}, below {AGREEMENT}")
        if reasons:
            rejected[name] = "; ".join(reasons)
    notes = []
    if len(names) < ADVISED:
        notes.append(f"{len(names)} observers are few: BT.500 asks for at least {ADVISED}")
    unchecked = int(np.count_nonzero(comparable < FEWEST_STIMULI))
    if unchecked:
        notes.append(
            f"{unchecked} of {len(names)} observers rated fewer than {FEWEST_STIMULI} stimuli: whether they agree with "
            "the panel was not asked"
        )
    if len(rejected) > TOO_MANY * len(names):
        notes.append(
            f"{len(rejected)} of {len(names)} observers were rejected: the stimuli may be too much alike, and "
            "not the observers at fault"
        )
    return Screening(rejected, notes)


def outlying(opinions: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How often each observer is far above (P) and far below (Q) the panel.

    Where all observers agree S is 0, and by the letter of BT.500 everybody is far off, both ways; here nobody is.
    """
    present = ~np.isnan(opinions)
    count = np.maximum(present.sum(axis=0), 1)
    gap = np.where(present, opinions - np.nansum(opinions, axis=0) / count, 0.0)
    second, fourth = np.square(gap).sum(axis=0) / count, np.power(gap, 4).sum(axis=0) / count
    kurtosis = fourth / np.where(second > 0, second, 1.0) ** 2
    sd = np.sqrt(second * count / np.maximum(count - 1, 1))
    limit = np.where((kurtosis >= 2) & (kurtosis <= 4), 2.0, np.sqrt(20.0)) * sd
    far = present & (np.abs(gap) >= limit)
    return (far & (gap > 0)).sum(axis=1), (far & (gap < 0)).sum(axis=1)


def agreements(opinions: Array) -> tuple[Array, NDArray[np.intp]]:
    """Correlation of each observer with the mean of all others, and over how many stimuli; NaN if one is constant."""
    present = ~np.isnan(opinions)
    total, count = np.nansum(opinions, axis=0), present.sum(axis=0)
    found, comparable = np.full(len(opinions), np.nan), np.zeros(len(opinions), dtype=np.intp)
    for i, own in enumerate(opinions):
        both = present[i] & (count > 1)
        comparable[i] = np.count_nonzero(both)
        mine, others = own[both], (total[both] - own[both]) / (count[both] - 1)
        if comparable[i] > 1 and np.ptp(mine) > 0 and np.ptp(others) > 0:
            found[i] = np.corrcoef(mine, others)[0, 1]
    return found, comparable
