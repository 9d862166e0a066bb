"""Mean opinion scores of stimuli, with intervals, and what hidden references got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.measures.base import plain
from microveil.opinion.ratings import Kind, Ratings
from microveil.opinion.screening import FEWEST, Screening, screen
from microveil.opinion.session import Stimulus, panel

CONFIDENCE = 0.95


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
