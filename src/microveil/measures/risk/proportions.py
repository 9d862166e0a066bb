"""Shares of records that an attack gets right, with their intervals, and the sample of records that is tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.measures.base import Estimate, are_many, drawn_rows, gauge

CONFIDENCE = 0.95

FEWEST_TRIED = 2_000
"""With a share of one half, the interval is .022 to either side; where nobody is found, it ends at .0018. Of files with
many records every attack tries the same ones, against all that were released, so that they share their searches."""

EXACT_PAIRS = 100_000**2
"""An attack that searches once tries all records as long as there are no more pairs (original, released) than this,
which is ten seconds of work at most."""

PAIRS = 400_000_000
"""The same for a first look, and to be shared by the searches of an attack that searches often."""

attack = partial(gauge, cost="slow")
"""Declares an attack: what it measures is a share of records or values, and less of it is better."""

paired_attack = partial(attack, paired=True, default=True)
"""Declares an attack on records whose release is known, which is tried on any file."""


def sampled_rows(
    count: int, seed: int | None, *, pairs: int = EXACT_PAIRS, sample: int | None = None
) -> NDArray[np.intp]:
    """The originals an attack is tried on: all, or a random sample (of `sample`, or as many as `pairs` allow)."""
    most = sample or (FEWEST_TRIED if are_many(count) else max(FEWEST_TRIED, pairs // count))
    return drawn_rows(count, most, Streams.from_seed(seed).stream("records tried"))


def share_of(
    hits: float, tried: int, *, chance: float | None, of: int = 0, note: str = "", parts: dict[str, float] | None = None
) -> Estimate:
    """The share of right guesses, `hits` of those `tried`, with its interval and what luck gives (`chance`).

    `of` is the number of records that a sample was drawn from; the `note` says more, `parts` are further figures.
    """
    low, high = binomial_interval(hits, tried)
    return Estimate(hits / max(tried, 1), low, high, chance, note_of(sample_note(tried, of), note), parts or {})


def sample_note(tried: int, of: int) -> str:
    """A sentence, if not all records were tried."""
    return f"an estimate from {tried} of {of} records, drawn at random" if of > tried else ""


def note_of(*sentences: str) -> str:
    """A note of some sentences, without those that are empty."""
    return "; ".join(filter(None, sentences))


def binomial_interval(hits: float, tries: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of a share.

    Hits may be fractions, if each try earns something between 0 and 1: its variance is then at most that of a hit or
    miss with the same mean, so the interval is rather too wide than too narrow.
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if hits <= 0 else float(betaincinv(hits, max(tries - hits, 0) + 1, tail))
    high = 1.0 if hits >= tries else float(betaincinv(hits + 1, tries - hits, 1 - tail))
    return low, high


def wilson_interval(hits: float, tries: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's (1927) interval of a share: narrower than the exact one, and still right near 0 and 1."""
    from scipy.special import ndtri

    if tries == 0:
        return 0.0, 1.0
    z2, share = float(ndtri((1 + confidence) / 2)) ** 2, hits / tries
    middle = (share + z2 / (2 * tries)) / (1 + z2 / tries)
    reach = np.sqrt(z2 / tries * (share * (1 - share) + z2 / (4 * tries))) / (1 + z2 / tries)
    return (0.0 if hits <= 0 else float(middle - reach)), (1.0 if hits >= tries else float(middle + reach))


@dataclass(frozen=True, repr=False)
class Tally:
    """How often an attack was right. Hits may be fractions, where it had to guess.

    `each` has what every target earned, on a scale on which their mean is the share, if that is known.
    """

    hits: float = 0.0
    tries: int = 0
    each: Array | None = field(default=None, compare=False)

    @property
    def share(self) -> float:
        """Share of right guesses; none of no tries."""
        return self.hits / max(self.tries, 1)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Wilson's interval of the share."""
        return wilson_interval(self.hits, self.tries, confidence)
