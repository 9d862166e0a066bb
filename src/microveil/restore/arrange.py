"""Arrangement: which record gets which value, so that moments and rank correlations come back.

Columns that keep their values can only exchange them between records. Two records that exchange their values of one
column change its moments with all others, and nothing else; so exchanges are tried at random and made when they bring
the second moments between the features of the columns (`restore/features`) nearer to those of the original.
Like is matched with like in four layers: values (Pearson's correlations), ranks (Spearman's), and the squares and cubes
of the ranks, which tell whether columns are far out together. In each layer the error is measured in units of the
target (`trace(T^-1 E T^-1 E)`), so that a direction in which the columns hardly vary counts as much as the first.
Single moments between layers (bends: the rank of one column, the squared rank of another; the value of one, the squared
value of another, where many records decide) and with the levels of labels (group means, two-way tables) count as they
are, as many as the number of records allows.

These are some hundred sums over all records, of data whose records have been torn apart before: which of the many
arrangements with the same sums comes out is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask, give_memory_back
from microveil.core.fewest_records import (
    FEW_ADD_UP,
    FEW_ROWS,
    FEWEST_RECORDS,
    few_decide,
    limits_to_fit,
    many_add_up,
    standing_out,
    within,
)
from microveil.core.rng import Stream
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import in_threads
from microveil.restore.budget import nearly_alike, within_budget
from microveil.restore.calibrate import MANY_ROWS, ROUNDS, ROUNDS_OF_MANY, calibrated
from microveil.restore.exchanges import (
    Features,
    Goal,
    Rows,
    Stop,
    blocks_of,
    exchange_towards,
    power_sums,
    second_moments,
)
from microveil.restore.features import LAYERS, LEVELS, SQUARES, feature_blocks, moving_along, standardised
from microveil.restore.hidden_clusters import MOST_CLUSTERS, hidden_clusters
from microveil.restore.marginals import Marginal, mapped
from microveil.restore.missing import both_present, marks_of

RIDGE, WEIGHTED_RIDGE = 1e-3, 0.1
"""Added to the target before it is inverted: below this share of its variance, a direction is left to chance.

Weights that fall with size leave large values little weight, so the target is smaller than the variance that the search
starts from; with a small ridge it would get stuck far from it.
"""

SETTLED, LARGE = (0.015, 0.5), (0.2, 2.0)
"""Largest errors of correlations within a layer, and of single moments, in units of their own sampling error: where
there is nothing left to do, and above which the search goes on even if they fall slowly."""

FINE, FINE_BENDS = 0.004, 0.04
"""Least sampling errors that errors are held against, of 62,500 records and, for bends of values, of 625: no analysis
needs finer moments, and bends are long in coming."""

MEANS = 0.08
"""Twice the error of the mean of a group, in standard deviations, that leaves nothing to do: less than the sampling
error of groups of fewer than 150 records, which count so much more."""

PROPOSALS, LEAST_PASSES, MOST_PASSES = 60_000_000, 6, 400
"""Exchanges tried at most, in passes over all cells; many rows need few passes, as many exchanges help a sum."""

WIDE = 52
"""Features from which on fewer exchanges are tried: the work for each grows with the square of their number."""

PATIENCE = 20
"""Passes in which a loss has to fall for the search to go on."""

ROWS_PER_COLUMN = 2
"""Rows that a column must have for exchanges: the moments of all pairs of columns would else be more sums than the
records can hide."""

EMPHASIS = np.array([48.0, 8.0, 8.0, 8.0, 0.0])
"""How much the layers count: covariances are what most analyses are made of; squares of values have single moments."""

SIMPLE, BENDS = 4.0, 5.0
"""How much more group means, two-way tables, heaps and bends of values count than bends of ranks: of a rare level, they
are far off in its own units. And how much more than these bends of values count, which are long in coming."""

ROWS_FOR_BENDS = (1_000, 8_000)
"""Rows of tables whose bends of values are fitted to. In smaller ones, bends of ranks need the moments that these take;
in larger ones, bends of ranks are all clear and bring them back (to .02), in a third of the time."""


@dataclass(frozen=True)
class Settled:
    """How near the arrangement came: largest difference of correlations and of rank correlations."""

    correlation: float
    rank_correlation: float


@dataclass(frozen=True, repr=False)
class Arranged:
    """Columns of values, columns of labels, and how near their moments came; None where nobody has looked.

    They were arranged in so many `clusters`.
    """

    columns: list[Array]
    labels: list[NDArray[np.intp]]
    settled: Settled | None
    clusters: int = 1


def arrange(
    columns: Callable[[], list[Array]],
    marginals: Sequence[Marginal],
    original: Microdata,
    present: Mask | None,
    stream: Stream,
    most_clusters: int = MOST_CLUSTERS,
) -> Arranged:
    """The values of the marginals in an order that starts from that of the `columns`, which are used up.

    The columns are asked for when the target is known, as a large table has no room for them beside its features.
    `original` has public columns, which stay, and the confidential ones (without holes) whose moments are the target.
    Its labels start in a random order. With too many columns for its rows it stays with the first order, and how near
    that comes is not measured. Columns that it stands beside (those of the units of the rows) stay as they are
    released, and the moments with them as they were are the target: arranged beside the old ones, the values would
    tell what these were.
    """
    labels = [
        codes[stream.child(f"labels {name}").generator().permutation(codes.size)]
        for name, codes in zip(original.labels.names, original.labels.codes, strict=True)
    ]
    original, stay = _with_columns_beside(original)
    width = len(original.names) + len(labels)
    if width * ROWS_PER_COLUMN > original.count:
        return Arranged(mapped(columns(), marginals), labels, None)
    # Beside public columns or weights, which stay where they are, values would tell the cluster of each record; so they
    # would beside gaps, if rows did not trade them.
    free = present is None or original.rows_trade
    if free and original.public == 0 and original.weights is None and original.count > FEW_ROWS:
        clusters = hidden_clusters(original, LAYERS * width * (width - 1) // 2, stream, most_clusters)
        if clusters is not None:
            return _arranged_in_clusters(clusters, marginals, original, present, stream)
    search = ExchangeSearch(original, present, stay=stay)
    start = columns()
    rounds = ROUNDS if original.count < MANY_ROWS else 0
    held = [marginal.put_aside(original.values.put_aside) for marginal in marginals] if rounds else marginals
    calibrated(start, held, original, search.limits, stay, rounds=rounds)
    del held  # they are made again when features give way
    return search.arranged(start, labels, marginals, stream)


def _with_columns_beside(original: Microdata) -> tuple[Microdata, list[Array] | None]:
    """The table with the columns that it stands beside, as they were, among its public ones; these as they are
    released, None for a table that stands beside none, or has too many columns for its rows with them.
    """
    beside, public = original.beside, original.regressors.columns
    names = (*original.names[: original.public], *(f"beside {j}" for j in range(len(beside.before))))
    width = len(names) + len(original.confidential_names) + len(original.labels.names)
    if not beside.before or width * ROWS_PER_COLUMN > original.count:
        return original, None
    target = replace(
        original,
        values=Matrix([*public, *beside.before, *original.confidential.columns]),
        names=(*names, *original.confidential_names),
        public=len(names),
    )
    return target, [*public, *beside.after]


def _arranged_in_clusters(
    clusters: NDArray[np.int8],
    marginals: Sequence[Marginal],
    original: Microdata,
    present: Mask | None,
    stream: Stream,
) -> Arranged:
    """The values of the marginals, arranged inside each cluster from a random order on, then all together.

    A cluster gets the values that its records' ranks stand for, and exchanges cross no border of clusters. Which record
    is in which cluster is then forgotten; where cells are missing (`present`), when rows trade their gaps.
    """
    order = np.argsort(clusters, kind="stable")
    ends = np.cumsum(np.bincount(clusters)).tolist()
    original, present = original.take(order), None if present is None else present[order]
    marginals = [marginal.of_rows(order) for marginal in marginals]
    whole = ExchangeSearch(original, present, borders=ends)
    kept = whole.kept
    pairs = zip(marginals, original.confidential.columns, strict=True)
    values = [kept(marginal.put_aside(kept).in_order_of(column[:])) for marginal, column in pairs]
    parts = []
    for number, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        own = stream.child(f"cluster {number}")
        part, generator = original.take(np.arange(first, last)), own.generator()
        there = None if present is None else present[first:last]
        inside = [
            Marginal.of_cells(column[first:last], None if there is None else there[:, j]).put_aside(kept)
            for j, column in enumerate(values)
        ]
        start = [kept(generator.permutation(column[first:last])) for column in values]
        start = start if there is None else mapped(start, inside)
        labels = [generator.permutation(codes) for codes in part.labels.codes]
        search = ExchangeSearch(part, there, share=part.count / original.count)
        rounds = ROUNDS if original.count < MANY_ROWS else ROUNDS_OF_MANY
        start = calibrated(start, inside, part, search.limits, rounds=rounds)
        parts.append(search.arranged(start, labels, inside, own))
    columns = [
        kept(np.concatenate([p[:] for p in pieces])) for pieces in zip(*(part.columns for part in parts), strict=True)
    ]
    labels = [np.concatenate(pieces) for pieces in zip(*(part.labels for part in parts), strict=True)]
    # A large table has no room for them beside its features.
    del original, values, parts, part, start, inside, search
    give_memory_back()
    found = whole.arranged(columns, labels, marginals, stream)
    places = stream.child("places").generator().permutation(order.size) if present is None else np.argsort(order)
    columns = [kept(c[:][places]) for c in found.columns]
    return Arranged(columns, [c[places] for c in found.labels], found.settled, len(ends))


class ExchangeSearch:
    """Exchanges towards the second moments of the original.

    `stay` are the public columns, where these are no longer as they were. `share` is that of the records of a whole,
    where this is a part of it that is searched before the whole is; no exchange crosses the `borders` between records.
    """

    def __init__(
        self,
        original: Microdata,
        present: Mask | None,
        *,
        stay: Sequence[Array] | None = None,
        share: float = 1.0,
        borders: Sequence[int] = (),
    ) -> None:
        self.share, self.borders = share, borders
        self.count, self.stay = original.count, original.regressors.columns if stay is None else stay
        moving = original.confidential.columns
        place = original.values.with_columns([])  # which holds none of them
        self.kept, self.room = place.put_aside, partial(place.room_for_features, original.count)
        self.limits = [limits_to_fit(column[:]) for column in moving]
        self.decided = [j for j, column in enumerate(moving) if few_decide(column[:], FEWEST_RECORDS)]
        weights = original.weights
        even = np.broadcast_to(1 / original.count, original.count)
        self.weights = even if weights is None else weights / weights.sum()
        self.present = present
        labels = original.labels.codes
        width = len(original.names) - original.public + len(labels)
        self.marks = np.empty((0, width), np.uint8) if present is None else marks_of(present, len(labels))
        self.anchors = self._anchors(original.weights is not None)
        self.fixed = len(self.anchors) + len(self.stay)
        fewest, most = ROWS_FOR_BENDS
        bends = fewest <= round(self.count / share) <= most
        values = len(self.anchors) + len(original.names)
        along = moving_along(original, present, self.fixed, heaps=round(self.count / share) <= most)
        self.blocks = feature_blocks(values, labels, self.fixed, squares=bends, bands=along)
        # In small tables, what brings the means of their small groups back brings records back.
        self.means = self.blocks.means & (self.count >= fewest)
        self.emphasis = EMPHASIS[: self.blocks.depth]
        self.left_out: list[NDArray[np.intp]] = []
        self.spreads = self._spreads(original.values.columns)
        features = self.features(list(original.values.columns), labels)
        self._leave_out(features)
        self.target = second_moments(features, self.weights)
        fitted = self._fitted(features)
        del features
        ridge = (RIDGE if original.weights is None else WEIGHTED_RIDGE) * np.eye(self.blocks.values)
        layers = [np.linalg.inv(self.target[own, own] + ridge) for own in self.blocks.layers]
        owner, degree = self.blocks.owner, self.blocks.degree
        simple = np.add.outer(degree, degree) <= 2
        self.unit = np.maximum(1 / np.sqrt(self.count), np.where(self.blocks.bent, FINE_BENDS, FINE))
        self.unit, usual = np.where(self.means, self._units_of_means(), self.unit), self.unit
        weight = np.where(simple, SIMPLE, 1.0) * np.square(usual / self.unit)
        weight = np.where(self.blocks.bent, BENDS * weight, weight)
        weight = np.where(fitted & ~self.blocks.in_layers & (owner[:, None] != owner), weight, 0.0)
        inverse = np.ascontiguousarray(np.array(layers))
        emphasis = np.append(self.emphasis, np.zeros(self.blocks.width - self.blocks.levels.start))
        self.goal = Goal(self.target.copy(), fitted, weight, self.blocks.layers, inverse, emphasis)

    def _anchors(self, weighted: bool) -> list[Array]:
        """Columns that stay, in addition to the public ones, and whose moments with the others are means.

        With weights an exchange moves the mean; a column of ones makes it one of the moments. Where cells are missing,
        an indicator of them makes the mean over complete pairs one; but the moments of few gaps are those records.
        """
        anchors = [np.ones(self.count)] if weighted else []
        if self.present is not None:
            there = np.count_nonzero(self.present, axis=0)
            gaps = self.present[:, np.minimum(there, self.count - there) >= FEWEST_RECORDS]
            anchors += [np.asarray(standardised(column.astype(np.float64))) for column in gaps.T]
        return anchors

    def _leave_out(self, features: Features) -> None:
        """Note which records stand out in what stays, layer by layer: there, moments with it would be theirs alone.

        Two gaps or labels that go together but for one record are such a case: their difference is that record.
        """
        for own in self.blocks.layers:
            staying = np.empty((self.count, self.fixed))
            for place in range(self.fixed):
                staying[:, place] = features[:, own.start + place]
            self.left_out.append(np.flatnonzero(standing_out(staying, self.weights)))
        self._without_left_out(features)

    def _without_left_out(self, features: Features) -> None:
        """Zeros where records that stand out have what stays, so that they add nothing to moments with it."""
        for own, rows in zip(self.blocks.layers, self.left_out, strict=False):
            for place in range(own.start, own.start + self.fixed if rows.size else own.start):
                column = features[:, place]
                column[rows] = 0.0
                features[:, place] = column

    def _fitted(self, features: Features) -> Mask:
        """Between which features moments are fitted to.

        Those with enough complete pairs, and of columns that more than a few records have another value in: the
        moments of a rare flag are the records that have it. Sums of squares, squared, over those of fourth powers
        are the number of such records, as the ranks have it. Nor are means of groups and bends of values fitted to,
        where few decide.
        """
        least = min(FEWEST_RECORDS, self.count)
        values, owner, ranks = self.blocks.values, self.blocks.owner, self.blocks.layers[1]
        squares, fourths = power_sums(features, ranks)
        many = np.append(np.square(squares) >= 0.9 * least * fourths, np.ones(len(self.blocks.labels), dtype=bool))
        enough: Mask = np.outer(many, many)[owner[:, None], owner]
        by_few = np.array([self.fixed + j for j in self.decided], np.intp)
        enough[by_few, self.blocks.levels] = enough[self.blocks.levels, by_few] = False
        if self.present is not None:
            both = np.full((values + len(self.blocks.labels),) * 2, float(self.count))
            own = slice(self.fixed, values)
            both[:, own] = np.count_nonzero(self.present, axis=0)
            both[own] = both[:, own].T
            both[own, own] = both_present(self.present)
            enough &= (both >= least)[owner[:, None], owner]
        kind = self.blocks.kind
        first = np.flatnonzero(kind == 0)
        for other, few in ((kind >= LEVELS, FEW_ADD_UP), (kind == SQUARES, FEWEST_RECORDS)):
            pairs = np.ix_(first, np.flatnonzero(other))
            enough[pairs] &= many_add_up(((block[:, first], block[:, other]) for block in blocks_of(features)), few)
            enough[pairs[::-1]] = enough[pairs]
        apart = nearly_alike(self.blocks, self.target, self.count)
        enough[apart] = enough[:, apart] = False
        chosen = within_budget(self.blocks, self.target, self.count, self.share)
        self.emphasis = np.where([chosen[own, own].any() for own in self.blocks.layers], self.emphasis, 0.0)
        return enough & chosen

    def arranged(
        self,
        columns: list[Array],
        labels: list[NDArray[np.intp]],
        marginals: Sequence[Marginal],
        stream: Stream,
    ) -> Arranged:
        """The best order that was found from that of the columns, which are used up, and of the labels on."""
        columns[:0] = self.stay
        self._aim_at_means(columns)
        features = self.features(columns, labels)
        settled = self.run(features, stream)
        labels = self.labels(features, labels)
        if not isinstance(features, np.ndarray):
            features.shorten(self.blocks.layers[1].stop)  # values are in the order of their ranks
        return Arranged(self.values(features, marginals), labels, settled)

    def _spreads(self, columns: Sequence[Array]) -> Array:
        """Standard deviations of the columns that move (the last ones), within limits, if groups have means of them;
        1 for all other features.
        """
        found = np.ones(self.blocks.width)
        if not self.means.any():
            return found
        for j, (column, limits) in enumerate(zip(columns[len(columns) - len(self.limits) :], self.limits, strict=True)):
            cells = within(column, limits)[:]
            found[self.fixed + j] = (cells if self.present is None else cells[self.present[:, j]]).std()
        return found

    def _aim_at_means(self, columns: Sequence[Array]) -> None:
        """Set the moments that bring the means of groups back: more, if a column has lost spread at its ends."""
        now = self._spreads(columns)
        more = np.maximum(self.spreads / np.where(now > 0, now, np.inf), 1.0)
        self.goal.target[:] = self.target * np.where(self.means, np.outer(more, more), 1.0)

    def features(self, columns: list[Array], labels: Sequence[NDArray[np.intp]]) -> Features:
        """Rows x features of public and confidential columns, which are used up, and of labels.

        No handful of records decides over the moments of a column.
        """
        for j, limits in enumerate(self.limits, len(self.stay)):
            columns[j] = within(columns[j], limits)
        every = [*self.anchors, *columns]
        columns.clear()
        found = self.blocks.features(every, labels, self.present, self.room)
        for layer in range(self.blocks.depth):  # a column of ones has no variance, and is needed as it is
            for place, anchor in enumerate(self.anchors):
                found[:, layer * self.blocks.values + place] = anchor[:]
        self._without_left_out(found)
        return found

    def run(self, features: Features, stream: Stream) -> Settled:
        """Pass after pass until the errors are settled, or no longer fall."""
        rows = Rows(self.weights, self.marks, self.blocks.moving, self.borders)
        proposals = self.share * PROPOSALS * min(1.0, (WIDE / self.blocks.width) ** 2)
        passes = int(np.clip(proposals // (self.count * len(rows.moving)), LEAST_PASSES, MOST_PASSES))
        settled, large = (np.array([layer] * self.blocks.depth + [single]) for layer, single in (SETTLED, LARGE))
        stop = Stop(passes, PATIENCE, self._errors, settled, large)
        moments = exchange_towards(features, self.goal, rows, stop, stream)
        return Settled(*self.largest(self.goal.error(moments)))

    def values(self, features: Features, marginals: Sequence[Marginal]) -> list[Array]:
        """The values of the marginals where the features are."""
        first = self.blocks.layers[1].start + self.fixed

        def ordered(place: int, marginal: Marginal) -> Array:
            return self.kept(marginal.put_aside(self.kept).in_order_of(features[:, place]))

        jobs = [partial(ordered, place, marginal) for place, marginal in enumerate(marginals, first)]
        return in_threads(jobs, small=not isinstance(features, np.ndarray))

    def labels(self, features: Features, first: Sequence[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        """The labels where the features are; those that share a feature stay in the random order they came in."""
        return [block.levels_at(features, codes) for block, codes in zip(self.blocks.labels, first, strict=True)]

    def _errors(self, error: Array) -> Array:
        """The largest error of a correlation in each layer and of a single moment, in units of its sampling error."""
        between = self.blocks.owner[:, None] != self.blocks.owner
        return self.goal.by_part(np.abs(error) * between / self.unit, np.max)

    def _units_of_means(self) -> Array:
        """What the errors of moments with levels are held against, so that means of groups are alike: features."""
        roots = np.sqrt(np.clip(1 - np.diag(self.target), 0.0, 1.0))
        units: Array = np.clip(MEANS * np.maximum(roots[:, None], roots), FINE, max(1 / np.sqrt(self.count), FINE))
        return units

    def largest(self, error: Array) -> tuple[float, float]:
        """The largest error of a correlation, and of a rank correlation, between a moving column and any other."""
        other = ~np.eye(self.blocks.values, dtype=bool)[self.fixed :]
        values, ranks = (np.abs(error[own, own][self.fixed :]) * other for own in self.blocks.layers[:2])
        return float(values.max(initial=0.0)), float(ranks.max(initial=0.0))
