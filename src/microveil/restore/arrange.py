"""Arrangement: which record gets which value, so that moments and rank correlations come back.

Columns that keep their values can only exchange them between records. Two records that exchange their values of one
column change its moments with all others, and nothing else; so exchanges are tried at random and made when they bring
the second moments between the features of the columns (`restore/features`) nearer to those of the original.
Like is matched with like in four layers: values (Pearson's correlations), ranks (Spearman's), and the squares and cubes
of the ranks, which tell whether columns are far out together. In each layer the error is measured in units of the
target (`trace(T^-1 E T^-1 E)`), so that a direction in which the columns hardly vary counts as much as the first.
Single moments between layers (a bend: the rank of one column, the square of that of another) and with the levels of
labels (group means, two-way tables) count as they are, as many as the number of records allows.

These are some hundred sums over all records, of data whose records have been torn apart before: which of the many
arrangements with the same sums comes out is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS, few_decide, limits_to_fit, many_add_up, standing_out, within
from microveil.core.rng import Stream
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import in_threads
from microveil.restore.calibrate import calibrate
from microveil.restore.exchanges import BLOCK, Goal, Rows, Stop, exchange_towards, second_moments
from microveil.restore.features import LAYERS, feature_blocks, standardised
from microveil.restore.hidden_clusters import hidden_clusters
from microveil.restore.marginals import Marginal

ROUNDS = 3
"""Rounds of calibrating and mapping before the exchanges: they do most of the work, column by column."""

RIDGE, WEIGHTED_RIDGE = 1e-3, 0.1
"""Added to the target before it is inverted: below this share of its variance, a direction is left to chance.

Weights that fall with size leave large values little weight, so the target is smaller than the variance that the search
starts from; with a small ridge it would get stuck far from it.
"""

SETTLED, SETTLED_SINGLE = 0.02, 0.5
"""Largest error of a correlation within a layer, and of a single moment, in units of its own sampling error, at which
there is nothing left to do."""

PROPOSALS, LEAST_PASSES, MOST_PASSES = 60_000_000, 4, 400
"""Exchanges tried at most, in passes over all cells; many rows need few passes, as many exchanges help a sum."""

WIDE = 52
"""Features from which on fewer exchanges are tried: the work for each grows with the square of their number."""

STALLED, PATIENCE = 0.9, 40
"""The search ends if no layer's loss is below this share of what it was so many passes ago."""

ROWS_PER_COLUMN = 2
"""Rows that a column must have for exchanges: the moments of all pairs of columns would else be more sums than the
records can hide."""

EMPHASIS = np.array([48.0, 8.0, 8.0, 8.0])
"""How much the layers count: covariances are what most analyses are made of."""

SINGLE, CAREFUL_SINGLE = 1.0, 0.1
"""How much single moments count, between features of different layers and with levels. With weights or missing cells,
means are among them, and the search would get stuck."""

WITH_LABELS = 4.0
"""How much more group means and two-way tables count than bends: of a rare level, they are far off in its own units."""

LAYERED_PER_ROW, SINGLE_PER_ROW, MANY_ROWS = 1.25, 0.5, 4_000
"""The budget: correlations of all layers, and single moments, that are fitted to at most, for each record; more sums
are more than the records can hide. Bends are many, and the strongest of them owe most to chance: a table needs so many
rows for each of them that is fitted to per record."""

WEAK = 2.0
"""Moments below so many standard errors are left to chance."""


@dataclass(frozen=True)
class Settled:
    """How near the arrangement came: largest difference of correlations and of rank correlations."""

    correlation: float
    rank_correlation: float


def mapped(columns: list[Array], marginals: Sequence[Marginal]) -> list[Array]:
    """The values of the marginals in the order of the columns, in their place."""
    in_threads([partial(m.put_in_order_of, c) for m, c in zip(marginals, columns, strict=True)])
    return columns


@dataclass(frozen=True, repr=False)
class Arranged:
    """Columns of values, columns of labels, and how near their moments came; None where nobody has looked."""

    columns: list[Array]
    labels: list[NDArray[np.intp]]
    settled: Settled | None


def arrange(
    columns: list[Array], marginals: Sequence[Marginal], original: Microdata, present: Mask | None, stream: Stream
) -> Arranged:
    """The values of the marginals in an order that starts from that of the `columns`, which are used up.

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
        return Arranged(mapped(columns, marginals), labels, None)
    # Beside public columns or weights, which stay where they are, values would tell the cluster of each record.
    if present is None and original.public == 0 and original.weights is None:
        clusters = hidden_clusters(original, LAYERS * width * (width - 1) // 2, stream)
        if clusters is not None:
            return _arranged_in_clusters(clusters, marginals, original, stream)
    search = ExchangeSearch(original, present, stay=stay)
    return search.arranged(calibrated(columns, marginals, original, stay), labels, marginals, stream)


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
    clusters: NDArray[np.intp], marginals: Sequence[Marginal], original: Microdata, stream: Stream
) -> Arranged:
    """The values of the marginals, arranged inside each cluster from a random order on, then all together.

    A cluster gets the values that its records' ranks stand for, and exchanges cross no border of clusters. Which record
    is in which cluster is then forgotten.
    """
    order = np.argsort(clusters, kind="stable")
    ends = np.cumsum(np.bincount(clusters)).tolist()
    original = original.take(order)
    values = [m.in_order_of(c) for m, c in zip(marginals, original.confidential.columns, strict=True)]
    parts = []
    for number, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        own = stream.child(f"cluster {number}")
        part, generator = original.take(np.arange(first, last)), own.generator()
        start = [generator.permutation(column[first:last]) for column in values]
        labels = [generator.permutation(codes) for codes in part.labels.codes]
        inside = [Marginal(np.sort(column)) for column in start]
        search = ExchangeSearch(part, None, share=part.count / original.count)
        parts.append(search.arranged(calibrated(start, inside, part), labels, inside, own))
    columns = [np.concatenate(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)]
    labels = [np.concatenate(pieces) for pieces in zip(*(part.labels for part in parts), strict=True)]
    found = ExchangeSearch(original, None, borders=ends).arranged(columns, labels, marginals, stream)
    places = stream.child("places").generator().permutation(original.count)
    return Arranged([c[places] for c in found.columns], [c[places] for c in found.labels], found.settled)


def calibrated(
    columns: list[Array], marginals: Sequence[Marginal], original: Microdata, stay: Sequence[Array] | None = None
) -> list[Array]:
    """The values of the marginals in the order of the columns, in their place, brought near the moments column by
    column; `stay` as for `calibrate`.
    """
    own = original.confidential.columns
    original = original.with_confidential([within(column, limits_to_fit(column)) for column in own])
    for number in range(ROUNDS + 1 if columns else 0):
        if number and not calibrate(columns, original, stay):
            break
        mapped(columns, marginals)
    return columns


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
        self.share = share
        self.starts = np.union1d(np.arange(0, original.count, BLOCK), [*borders, original.count]).astype(np.int64)
        self.emphasis = EMPHASIS
        self.count, self.stay = original.count, original.regressors.columns if stay is None else stay
        moving = original.confidential.columns
        self.limits = [limits_to_fit(column) for column in moving]
        self.decided = [j for j, column in enumerate(moving) if few_decide(column, FEWEST_RECORDS)]
        weights = np.ones(original.count) if original.weights is None else original.weights
        self.weights = weights / weights.sum()
        self.present = present
        labels = original.labels.codes
        width = len(original.names) - original.public + len(labels)
        self.marks = np.empty((0, width), np.uint8) if present is None else _marks(present, len(labels))
        self.anchors = self._anchors(original.weights is not None)
        self.fixed = len(self.anchors) + len(self.stay)
        self.blocks = feature_blocks(len(self.anchors) + len(original.names), labels, self.fixed)
        self.left_out: list[NDArray[np.intp]] = []
        features = self.features(list(original.values.columns), labels)
        self._leave_out(features)
        self.target = second_moments(features, self.weights)
        fitted = self._fitted(features)
        del features
        ridge = (RIDGE if original.weights is None else WEIGHTED_RIDGE) * np.eye(self.blocks.values)
        layers = [np.linalg.inv(self.target[own, own] + ridge) for own in self.blocks.layers]
        plain = original.weights is None and present is None
        owner, degree = self.blocks.owner, self.blocks.degree
        with_labels = np.add.outer(degree, degree) <= 2
        weight = np.where(with_labels, WITH_LABELS * SINGLE, SINGLE) if plain else CAREFUL_SINGLE
        weight = np.where(fitted & ~self.in_layers & (owner[:, None] != owner), weight, 0.0)
        inverse = np.ascontiguousarray(np.array(layers))
        self.goal = Goal(self.target, fitted, weight, self.blocks.layers, inverse, self.emphasis)

    @cached_property
    def in_layers(self) -> Mask:
        """Which pairs of features are of one layer: features x features."""
        layer = np.repeat(np.arange(LAYERS), self.blocks.values)
        layer = np.append(layer, np.full(self.blocks.width - layer.size, -1))
        same: Mask = (layer[:, None] == layer) & (layer >= 0)
        return same

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

    def _leave_out(self, features: NDArray[np.float32]) -> None:
        """Note which records stand out in what stays, layer by layer: there, moments with it would be theirs alone.

        Two gaps or labels that go together but for one record are such a case: their difference is that record.
        """
        for own in self.blocks.layers:
            staying = features[:, own][:, : self.fixed].astype(np.float64)
            self.left_out.append(np.flatnonzero(standing_out(staying, self.weights)))
        self._without_left_out(features)

    def _without_left_out(self, features: NDArray[np.float32]) -> None:
        """Zeros where records that stand out have what stays, so that they add nothing to moments with it."""
        for layer, rows in enumerate(self.left_out):
            features[rows, layer * self.blocks.values : layer * self.blocks.values + self.fixed] = 0.0

    def _fitted(self, features: NDArray[np.float32]) -> Mask:
        """Between which features moments are fitted to.

        Those with enough complete pairs, and of columns that more than a few records have another value in: the
        moments of a rare flag are the records that have it. Sums of squares, squared, over those of fourth powers
        are the number of such records, as the ranks have it. Nor are means of groups fitted to, where few decide.
        """
        least = min(FEWEST_RECORDS, self.count)
        values, owner, ranks = self.blocks.values, self.blocks.owner, self.blocks.layers[1]
        squares, fourths = (np.einsum("ij->j", features[:, ranks].astype(np.float64) ** power) for power in (2, 4))
        many = np.append(np.square(squares) >= 0.9 * least * fourths, np.ones(len(self.blocks.labels), dtype=bool))
        enough: Mask = np.outer(many, many)[owner[:, None], owner]
        by_few = np.array([self.fixed + j for j in self.decided], np.intp)
        enough[by_few, LAYERS * values :] = enough[LAYERS * values :, by_few] = False
        if self.present is not None:
            there = np.ones((self.count, values + len(self.blocks.labels)))
            there[:, self.fixed : values] = self.present
            enough &= (there.T @ there >= least)[owner[:, None], owner]
        own, levels = self.blocks.layers[0], slice(LAYERS * values, None)
        enough[own, levels] &= many_add_up(features[:, own], features[:, levels])
        enough[levels, own] = enough[own, levels].T
        return enough & self._within_budget()

    def _within_budget(self) -> Mask:
        """The moments that there are records enough for.

        Values and ranks come first; then single moments with labels (group means, two-way tables), strongest first; the
        layers of squares and cubes if all layers together leave room; and the strongest of the other single moments.
        """
        degree, owner, values = self.blocks.degree, self.blocks.owner, self.blocks.values
        chosen = self.in_layers.copy()
        if LAYERS * values * (values - 1) // 2 > LAYERED_PER_ROW * self.count:
            self.emphasis = np.where(np.arange(LAYERS) < 2, EMPHASIS, 0.0)
            for own in self.blocks.layers[2:]:
                chosen[own, own] = False
        p, q = np.nonzero(np.triu(owner[:, None] != owner) & ~self.in_layers)
        low, high = np.minimum(degree[p], degree[q]), np.maximum(degree[p], degree[q])
        order_of = np.maximum(low, 1) + high
        strength = np.abs(self.target[p, q])
        # Values are matched with values, in their layer, and with levels (group means), but not with ranks of others.
        crossed = (low == 0) & (np.maximum(p, q) < LAYERS * values)
        simple = np.flatnonzero((order_of <= 2) & ~crossed)
        simple = simple[np.argsort(-strength[simple], kind="stable")][: int(SINGLE_PER_ROW * self.count)]
        strong = np.flatnonzero((order_of > 2) & (strength * np.sqrt(self.count) >= WEAK) & ~crossed)
        room = self.count * min(SINGLE_PER_ROW, self.count / self.share / MANY_ROWS) - simple.size
        strong = strong[np.lexsort((-strength[strong], order_of[strong]))][: max(int(room), 0)]
        for kind in (simple, strong):
            chosen[p[kind], q[kind]] = True
        return chosen | chosen.T

    def arranged(
        self,
        columns: list[Array],
        labels: list[NDArray[np.intp]],
        marginals: Sequence[Marginal],
        stream: Stream,
    ) -> Arranged:
        """The best order that was found from that of the columns, which are used up, and of the labels on."""
        columns[:0] = self.stay
        features = self.features(columns, labels)
        settled = self.run(features, stream)
        return Arranged(self.values(features, marginals), self.labels(features, labels), settled)

    def features(self, columns: list[Array], labels: Sequence[NDArray[np.intp]]) -> NDArray[np.float32]:
        """Rows x features of public and confidential columns, which are used up, and of labels.

        No handful of records decides over the moments of a column.
        """
        for j, limits in enumerate(self.limits, len(self.stay)):
            columns[j] = within(columns[j], limits)
        every = [*self.anchors, *columns]
        columns.clear()
        found = self.blocks.features(every, labels, self.present)
        for layer in range(LAYERS):  # a column of ones has no variance, and is needed as it is
            for place, anchor in enumerate(self.anchors):
                found[:, layer * self.blocks.values + place] = anchor
        self._without_left_out(found)
        return found

    def run(self, features: NDArray[np.float32], stream: Stream) -> Settled:
        """Pass after pass until the errors are settled, or no longer fall."""
        rows = Rows(self.weights, self.marks, self.blocks.moving, self.starts)
        proposals = self.share * PROPOSALS * min(1.0, (WIDE / features.shape[1]) ** 2)
        passes = int(np.clip(proposals // (self.count * len(rows.moving)), LEAST_PASSES, MOST_PASSES))
        exchange_towards(features, self.goal, rows, Stop(passes, STALLED, PATIENCE, self._settled), stream)
        return Settled(*self._largest(self.goal.error(features, self.weights)))

    def values(self, features: NDArray[np.float32], marginals: Sequence[Marginal]) -> list[Array]:
        """The values of the marginals where the features are."""
        ranks = features[:, self.blocks.layers[1]][:, self.fixed :].T
        return in_threads([partial(m.in_order_of, r) for m, r in zip(marginals, ranks, strict=True)])

    def labels(self, features: NDArray[np.float32], first: Sequence[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
        """The labels where the features are; those that share a feature stay in the random order they came in."""
        return [block.levels_at(features, codes) for block, codes in zip(self.blocks.labels, first, strict=True)]

    def _settled(self, error: Array) -> bool:
        """Is no error of a moment left that is worth the work?"""
        owner, scaled = self.blocks.owner, np.abs(error) * np.sqrt(self.count)
        within = scaled[self.in_layers & (owner[:, None] != owner)].max(initial=0.0)
        return bool(within <= SETTLED and scaled[self.goal.weight > 0].max(initial=0.0) <= SETTLED_SINGLE)

    def _largest(self, error: Array) -> tuple[float, float]:
        """The largest error of a correlation, and of a rank correlation, between a moving column and any other."""
        other = ~np.eye(self.blocks.values, dtype=bool)[self.fixed :]
        values, ranks = (np.abs(error[own, own][self.fixed :]) * other for own in self.blocks.layers[:2])
        return float(values.max(initial=0.0)), float(ranks.max(initial=0.0))


def _marks(present: Mask, labels: int) -> NDArray[np.uint8]:
    """Which cells are there, rows x moving columns; labels all are."""
    return np.ascontiguousarray(np.hstack([present, np.ones((len(present), labels), dtype=bool)]), np.uint8)
