"""Extremes and outliers: what a release says about the largest and the smallest, whom everybody looks for first.

The largest bank, the hospital with three times as many beds as the next: they are known by name, their figures are in
the newspaper, and nobody near them could be mistaken for them. That one record in a thousand can be found is no comfort
to them if they are the ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import standing
from microveil.measures.nearest.standardisation import VIEWS, plain_view
from microveil.measures.risk.interval import share_inside
from microveil.measures.risk.links import links_of
from microveil.measures.risk.proportions import attack, binomial_interval, share_of

AT_EACH_END = 25
FIRST = 5
IN_SUMS = 10
WITHIN = 0.05

SAMPLES = 20
"""Samples of strangers that chance is the mean of; how much they differ tells how far chance goes."""

SHARE = 0.01
FEWEST = 5


@attack(
    "share of the 25 largest and 25 smallest values of each column that the release gives away within 5 % by their "
    "rank, or by the sum of the first few",
    cost="fast",
    default=True,
    on_disk="sorted",
)
def extreme_disclosure(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Disclosure by rank, and through sums.

    Everybody knows who has most of something (the largest firm), and who comes next. So the intruder takes the largest
    released value for the first, the second largest for the second, and so on at both ends of each column. Or the
    intruder knows the first k values but one (k from 2 to 10: the others shared theirs), and takes the sum of the first
    k released values less those for the missing one: five values replaced by their mean still have their sum. It is a
    disclosure if either is within 5 % of the true value. A value that several records share belongs to nobody and is
    not counted, nor are missing cells. A release that keeps the values of a column, in whatever order, scores 1. The
    parts have ranks 1 to 5, ranks 6 to 25 and sums.

    Where tails are dense, any other sample says as much. So chance is what strangers give away: the values of another
    sample of the population, put between the true ones at random, 20 times. Values of one tail are told together, or
    not at all: the interval is that of as many values on their own as would let strangers differ as much.
    """
    stream = Streams.from_seed(seed).stream("strangers")
    total, lucky = np.zeros((2, 4)), np.zeros((SAMPLES, 2, 4))
    for j in range(original.shape[1]):
        true, guesses = original.in_order(j), released.in_order(j)
        count = min(AT_EACH_END, true.size // 2)  # of a short column no more than half
        for end, (first, found) in enumerate(_ends(true, guesses, count) if count else ()):
            total += _given_away(first[: count + 1], found)
            lucky += _by_strangers(first, count, stream.generator(2 * j + end))
    note = "" if total[1, 0] else "every extreme value is shared by several records"
    shares = total[0] / np.maximum(total[1], 1.0)
    strangers = lucky[:, 0, 0] / np.maximum(lucky[:, 1, 0], 1.0)
    parts = dict(zip(("ranks 1-5", "ranks 6-25", "sums"), map(float, shares[1:]), strict=True))
    alone = _on_their_own(strangers, float(total[1, 0]))
    low, high = binomial_interval(alone * float(shares[0]), alone)
    return Estimate(float(shares[0]), low, high, float(strangers.mean()), note, parts)


def _on_their_own(shares: Array, count: float) -> float:
    """How many of so many values, if each were told by itself, would let the `shares` of samples differ as they do."""
    chance, variance = float(shares.mean()), float(shares.var())
    return min(count, chance * (1 - chance) / variance) if variance > 0 else count


def _ends(true: Array, guesses: Array, count: int) -> Iterator[tuple[Array, Array]]:
    """The first values from either end, more of the true ones; smallest values with their sign turned around."""
    deep = min(4 * AT_EACH_END, true.size - true.size // 2 + 1)
    yield true[true.size - deep : true.size][::-1], guesses[max(guesses.size - count, 0) : guesses.size][::-1]
    yield -true[:deep], -guesses[:count]


def _given_away(true: Array, guesses: Array) -> Array:
    """Values given away (by any way, by rank 1-5, by rank 6-25, by sums), and how many could be.

    Both arrays come in descending order; `true` has more values, to see whether the last is shared.
    """
    count = min(AT_EACH_END, true.size - 1)
    apart = true[:count] != true[1 : count + 1]
    own = apart & np.concatenate([[True], apart[:-1]])
    true, guesses = true[:count], guesses[:count]
    by_rank = np.zeros(count, dtype=bool)
    by_rank[: guesses.size] = np.abs(guesses - true[: guesses.size]) <= WITHIN * np.abs(true[: guesses.size])
    # The value of those follows from the sum of the first few, all others of which are known.
    most = min(IN_SUMS, guesses.size, count)
    errors, by_sum = np.abs(np.cumsum(guesses[:most]) - np.cumsum(true[:most])), np.zeros(count, dtype=bool)
    for summed in range(2, most + 1):
        by_sum[:summed] |= errors[summed - 1] <= WITHIN * np.abs(true[:summed])
    place = np.arange(count)
    groups = (by_rank | by_sum, own), (by_rank, own & (place < FIRST)), (by_rank, own & (place >= FIRST))
    sums = (by_sum, own & (place < IN_SUMS))
    return np.array([[(hit & asked).sum(), asked.sum()] for hit, asked in (*groups, sums)], dtype=float).T


def _by_strangers(true: Array, count: int, generator: np.random.Generator) -> Array:
    """The same by other samples of the population: samples x the figures of `_given_away`.

    Of two samples of one population it is even odds whose value comes next. So a stranger's values are put between the
    true ones as a coin falls, evenly in their gap; above all of them as far as the first gap reaches on average. `true`
    is in descending order, and the first `count` values are asked for.
    """
    found, reach = [], true[0] - true[1]
    for _ in range(SAMPLES):
        strangers = generator.random(2 * true.size) < 0.5
        above = np.cumsum(~strangers)[strangers][:count]  # true values above each of the stranger's
        above = above[above < true.size]
        upper = np.where(above > 0, true[above - 1], true[0] + reach * generator.exponential(size=above.size))
        guesses = true[above] + generator.random(above.size) * (upper - true[above])
        found.append(_given_away(true[: count + 1], np.sort(guesses)[::-1]))
    return np.array(found)


@attack("share of the most extreme 1 % of records (at least five) that some linkage finds in the release", paired=True)
def outlier_risk(original: Matrix, released: Matrix) -> Estimate:
    """Linkage and interval disclosure of the most extreme records.

    Extreme are the records farthest from the centre, all columns in standard deviations. Each counts with the best of
    three linkages (`dbrl`, `mahalanobis_linkage`, `rank_linkage`), as if the intruder knew which one works; chance is
    that of three guesses. The parts have each linkage by itself; `interval_disclosure`, the share of their values in
    narrow rank intervals around the nearest released record's; and "most exposed", the largest risk of a single one of
    them: 1 over the number of released records at least as near as its own.
    """
    count = original.shape[0]
    size = min(max(FEWEST, int(np.ceil(SHARE * count))), count)
    rows = np.sort(np.argsort(-_remoteness(original), kind="stable")[:size])
    linked, risk = risk_of_rows(original, released, rows)
    best = np.max(list(linked.values()), axis=0)
    view = plain_view(original, released)
    nearest = links_of(view.before, view.after, rows, view.known).nearest
    return share_of(
        float(best.sum()),
        rows.size,
        chance=1 - (1 - 1 / count) ** len(VIEWS),
        note=f"{rows.size} records",
        parts={
            **{name: float(credit.mean()) for name, credit in linked.items()},
            "interval_disclosure": share_inside(original, released, rows, nearest),
            "most exposed": float(risk.max()),
        },
    )


def risk_of_rows(original: Matrix, released: Matrix, rows: Index) -> tuple[dict[str, Array], Array]:
    """For some rows: by each linkage the chance that it finds their own release, and the risk.

    The chance is 1/k if k are equally near. The risk is 1 over the number of released records at least as near as their
    own, by the linkage where it is largest. A record without a cell that is there in both files is found by none.
    """
    linked, risk = {}, np.zeros(rows.size)
    for name, view_of in VIEWS.items():
        view = view_of(original, released)
        ahead, equal = standing(view.before[rows], view.after, rows)
        linked[name] = np.where(view.known[rows] & (ahead == 0), 1 / equal, 0.0)
        risk = np.maximum(risk, np.where(view.known[rows], 1 / (ahead + equal), 0.0))
    return linked, risk


def _remoteness(original: Matrix) -> Array:
    """Root mean square of a record's values in standard deviations from the means; 0 for one without values."""
    values, _ = standardised(original, original)
    there = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    remoteness: Array = np.sqrt(np.square(np.nan_to_num(values)).sum(axis=1) / there)
    return remoteness
