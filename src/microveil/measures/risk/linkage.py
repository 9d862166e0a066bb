"""Record linkage: can an intruder who knows a record find it in the release?

The intruder holds some records with their original values (from a register, a newspaper, a rival's books) and takes the
nearest released record for each. The attacks differ in what "near" means. All originals are tried up to 100,000, then a
random sample of 2,000 (an attack that searches often takes one sooner); all released records compete.
`nearest/standardisation.py` says what becomes of missing cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.keys import MISSING, grouped
from microveil.core.linalg import fast_ica, sorted_eigen
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, worker_count
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, are_many, scales, standardised, without_holes
from microveil.measures.labels import LabelPair
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import Links
from microveil.measures.nearest.standardisation import (
    VIEWS,
    known_together,
    whitened_view,
    whitening_axes,
    whitening_axes_of,
)
from microveil.measures.risk.links import (
    Way,
    by_columns,
    by_directions,
    links_by,
    links_in_pieces,
    links_of,
    links_of_sample,
    shares_by_luck,
)
from microveil.measures.risk.proportions import (
    EXACT_PAIRS,
    PAIRS,
    attack,
    paired_attack,
    sampled_rows,
    share_of,
)

MOST_ASSIGNED = 2_000
"""Records matched one to one at most: the work grows with the cube."""

DRAWS_PER_SIZE = 5
MOST_SIZES = 12

ROUNDS = 20
"""Times the intruder learns from the links found so far, at most."""

SETTLED = 0.01
"""Share of links that change from one round to the next below which there is no more to learn."""

LEAST_GAP = 1e-9
"""Variance (of components of unit variance) below which the directions in which linked pairs differ are all alike."""

MOST_SUBSPACES = 16
ALL_COLUMNS = "all columns"
ICA_ROWS = 20_000
ICA_ITERATIONS = 500


@paired_attack(
    "share of records whose nearest released record is their own, for an intruder who knows all compared columns",
    on_disk="passes",
    on_spark=True,
)
def dbrl(
    original: Matrix,
    released: Matrix,
    *,
    seed: int | None = None,
    pairs: int = EXACT_PAIRS,
    sample: int | None = None,
) -> Estimate:
    """Distance-based record linkage (Pagliuca and Seri 1999; Calviño 2017, §4.1).

    The intruder knows every column of a record, and takes the nearest released record for it (Euclidean, columns in
    standard deviations of the original). It is a hit if no released record is nearer than its own; of k records at the
    same distance each counts 1/k, as the intruder has to guess. With more pairs of records than `pairs` a sample of the
    originals is tried; where released records are not in memory, a `sample` of so many.
    """
    tried = sampled_rows(original.shape[0], seed, pairs=pairs, sample=sample)
    return _linkage("dbrl", original, released, tried, in_pieces=sample is not None)


@paired_attack(
    "share of records whose nearest released record is their own, by distances that allow for the correlations",
    on_disk="passes",
    on_spark=True,
)
def mahalanobis_linkage(
    original: Matrix, released: Matrix, *, seed: int | None = None, sample: int | None = None
) -> Estimate:
    """Linkage in coordinates without correlation (Mahalanobis distance; Torra, Abowd and Domingo-Ferrer 2006).

    Turnover and profit go together: a difference in both counts once, and a small difference against the run of the
    data counts more than a large one along it. So the columns become principal components of the original, each of unit
    variance, without those that are round-off. Where released records are not in memory, a `sample` of so many
    originals is tried.
    """
    tried = sampled_rows(original.shape[0], seed, sample=sample)
    return _linkage("mahalanobis_linkage", original, released, tried, in_pieces=sample is not None)


@paired_attack("share of records whose nearest released record is their own, by the ranks of their values")
def rank_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage by ranks (Muralidhar and Domingo-Ferrer 2016).

    The intruder trusts the order, not the values: the third largest firm is probably still among the largest. Each
    value becomes its rank in its own file (equal values share their mean rank), so no monotone transformation helps,
    nor do long tails.
    """
    return _linkage("rank_linkage", original, released, sampled_rows(original.shape[0], seed))


@paired_attack(
    "share of records that are matched to their own when all are matched one to one at the least total distance",
    on_disk="passes",
    on_spark=True,
)
def optimal_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """One-to-one linkage (Domingo-Ferrer, Muralidhar and Bras-Amorós 2020: the permutation paradigm's intruder).

    The intruder holds the whole original file and knows that each record is in the release exactly once. So the records
    are assigned with the least sum of squared distances. Above 2,000 records a random sample of originals is matched
    with *their* releases; fewer rivals help the intruder, so the figure is then rather too high.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    rows = sampled_rows(original.shape[0], seed, sample=MOST_ASSIGNED)
    # Equal costs are decided by position; in their own order the records would all be hits.
    order = Streams.from_seed(seed).stream("order of the release").generator().permutation(rows.size)
    before, after = standardised(original, released, rows)
    known = known_together(before, after)
    before, after = np.nan_to_num(before), np.nan_to_num(after)
    _, chosen = linear_sum_assignment(cdist(before, after[order], "sqeuclidean"))
    _, record, copies = np.unique(after, axis=0, return_inverse=True, return_counts=True)
    right = (record[order[chosen]] == record) & known
    hits = float((right / copies[record]).sum())
    return share_of(hits, rows.size, chance=1 / rows.size, of=original.shape[0])


@paired_attack(
    "share of records linked by an intruder who knows some of the columns, at the number of columns that links most"
)
def known_columns_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage by some of the columns.

    The intruder knows 1, 2, 3 ... columns of a record, and takes the released record that is nearest in those. The
    share for each number is the mean over five random choices of columns; the parts hold the curve, the value its
    highest point. Even where nothing can be found that is above a guess; so chance is measured, as in
    `subspace_linkage`: the highest point in releases whose rows are permuted.
    """
    before, after = standardised(original, released)
    filled = without_holes(before), without_holes(after)
    count, width = before.shape
    tried = sampled_rows(count, seed, pairs=PAIRS // 10)
    streams = Streams.from_seed(seed)
    stream = streams.stream("known columns")
    found: dict[int, list[Links]] = {}
    known = []
    for size in sorted({round(step) for step in np.linspace(1, width, min(width, MOST_SIZES))}):
        draws = DRAWS_PER_SIZE if size < width else 1
        generator = stream.generator(size)
        ways = [by_columns(np.sort(generator.choice(width, size, replace=False))) for _ in range(draws)]
        seen = [known_together(way(before[tried]), way(after[tried])) for way in ways]
        found[size] = [links_by(way, *filled, tried, one) for way, one in zip(ways, seen, strict=True)]
        known += seen
    curve = {size: float(np.mean([links.hits for links in some])) / tried.size for size, some in found.items()}
    shares = shares_by_luck([*chain(*found.values())], np.stack(known), count, streams.stream("shuffles"))
    ends = np.cumsum([len(some) for some in found.values()])[:-1]
    lucky = [some.mean(axis=1) for some in np.split(shares, ends, axis=1)]
    worst = max(curve, key=lambda size: curve[size])
    return share_of(
        curve[worst] * tried.size,
        tried.size,
        chance=float(np.max(lucky, axis=0).mean()),
        of=count,
        note=f"highest with {worst} of {width} columns known",
        parts={f"{size} known": share for size, share in curve.items()},
    )


def _linkage(name: str, original: Matrix, released: Matrix, tried: Index, *, in_pieces: bool = False) -> Estimate:
    """The share of the originals `tried` (rows) that are linked to their own release, in the view of this `name`.

    Released records that are not in memory are read `in_pieces`.
    """
    if in_pieces:
        axes = whitening_axes_of(original) if VIEWS[name] is whitened_view else None
        found = links_in_pieces(original, released, tried, axes)
    elif are_many(original.shape[0]):
        found = links_of_sample(name, original, released, tried)
    else:
        view = VIEWS[name](original, released)
        found = links_of(view.before, view.after, tried, view.known)
    return share_of(found.hits, tried.size, chance=1 / original.shape[0], of=original.shape[0])


@paired_attack(
    "share of records linked by an intruder who searches the release's principal and independent components for the "
    "directions that link best"
)
def subspace_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage in the best of many subspaces.

    The intruder knows how such releases are made: some components are perturbed, others hardly or not at all. The
    release shows the components, as its correlations are (nearly) those of the original. So the intruder projects the
    originals and the release on the principal components of the *release*, and on its independent ones (FastICA), and
    tries the leading k, the trailing k and each single component of both kinds, each in units of its own spread, and
    the plain linkage of `dbrl`. If the best is better than luck, the intruder learns from its links in which directions
    linked pairs differ least, and links again by those, a few times over. The figure is the share in the best of all,
    as if a few known pairs showed which that is.

    The best of many tries is high even where nothing can be found. So chance is measured: the mean of the same search
    in 200 releases whose rows are permuted, which changes neither axes nor neighbours. The interval is that of the best
    subspace taken by itself.
    """
    if not scales(released):
        guesses = 0.0 if all(np.isnan(column).all() for column in released.columns) else 1.0
        count = released.shape[0]
        return share_of(guesses, count, chance=1 / count, note="the release is constant: there is nothing to link by")
    after, before = standardised(released, original)  # on the scale of the release, which is all the intruder has
    known = known_together(before, after)
    before, after = without_holes(before), without_holes(after)
    streams = Streams.from_seed(seed)
    tried = sampled_rows(len(before), seed, pairs=PAIRS // 20)
    many = are_many(len(before))
    found = {
        ALL_COLUMNS: links_of_sample("dbrl", original, released, tried)
        if many
        else links_of(*standardised(original, released), tried)
    }
    ways = dict(_subspaces(after, streams.stream("axes")))
    for name, way in ways.items():
        found[name] = links_by(way, before, after, tried, known[tried])

    def best_by_luck() -> Array:
        """The best share over the ways so far in each of many releases with permuted rows."""
        shares = shares_by_luck(list(found.values()), known[tried], len(after), streams.stream("shuffles"))
        return np.asarray(shares.max(axis=1))

    luck = best_by_luck()
    start = max(found.values(), key=lambda links: links.hits)
    if start.hits / tried.size > np.quantile(luck, 0.95):  # else there is nothing to learn from
        if not start.nearest.size:
            way = ways[next(name for name in found if found[name] is start)]
            start = links_of(way(before), way(after), tried, known)
        found |= _learnt(before, after, known, tried, start)
        luck = best_by_luck()
    best = max(found, key=lambda name: found[name].hits)
    return share_of(
        found[best].hits,
        tried.size,
        chance=float(luck.mean()),
        of=len(before),
        note=f"links best in {best}, of {len(found)} ways tried",
        parts={
            ALL_COLUMNS: found[ALL_COLUMNS].hits / tried.size,
            "before learning": start.hits / tried.size,
            "95 % of shuffled releases": float(np.quantile(luck, 0.95)),
        },
    )


def _subspaces(after: Array, stream: Stream) -> Iterator[tuple[str, Way]]:
    """Names of subspaces, each with the projection on it."""
    principal = whitening_axes(after)
    kinds = {"principal": principal}
    if 1 < principal.shape[1] < len(after):
        kinds["independent"] = principal @ _rotation(after @ principal, stream)
    for kind, axes in kinds.items():
        for name, chosen in selections(principal.shape[1], kind):
            yield name, by_directions(axes, chosen)


def _learnt(before: Array, after: Array, known: Mask, tried: Index, links: Links) -> Iterator[tuple[str, Links]]:
    """Links in directions learnt from the links before, right or wrong as they are.

    Right links agree in what was left alone, and wrong ones do not agree in what was changed. So each direction is
    weighed by how little linked pairs differ in it, and the search is repeated. Both files are n x k, `known` (n) says
    of whom anything is known, and `links` are of the rows `tried`.
    """
    axes = whitening_axes(after)
    for round_ in range(1, ROUNDS + 1):
        pairs = known[tried]
        gaps = (before[tried[pairs]] - after[links.nearest[pairs]]) @ axes
        variances, vectors = sorted_eigen(gaps.T @ gaps / max(len(gaps), 1))
        weighed = axes @ (vectors / np.sqrt(np.maximum(variances, LEAST_GAP)))
        found = links_of(before @ weighed, after @ weighed, tried, known)
        yield f"directions learnt from links, round {round_}", found
        if np.mean(found.nearest != links.nearest) <= SETTLED:
            return
        links = found


def selections(count: int, kind: str) -> Iterator[tuple[str, slice]]:
    """Single, leading and trailing components. Of many components not every k is tried: the next is nearly as good."""
    for k in range(count):
        yield f"{kind} component {k + 1}", slice(k, k + 1)
    steps = range(1, count + 1) if count <= MOST_SUBSPACES else np.geomspace(1, count, MOST_SUBSPACES)
    for k in sorted({round(step) for step in steps} - {1}):
        yield f"the first {k} {kind} components", slice(0, k)
        if k < count:
            yield f"the last {k} {kind} components", slice(count - k, count)


def _rotation(white: Array, stream: Stream) -> Array:
    """The rotation to independent components, least normal first. Not converged is as good: any axes may be tried."""
    generator = stream.generator()
    rows = generator.permutation(len(white))[:ICA_ROWS]
    start = generator.standard_normal((white.shape[1], white.shape[1]))
    rotation, _ = fast_ica(white[rows], start, ICA_ITERATIONS)
    # |x| has the mean sqrt(2/pi) if x is normal: how far it is away says how much a component stands out.
    strangeness = np.abs(np.abs(white[rows] @ rotation).mean(axis=0) - np.sqrt(2 / np.pi))
    return rotation[:, np.argsort(-strangeness, kind="stable")]


@attack(
    "share of records that no other record is equal to in the columns that are released as they are",
    needs="clear",
    default=True,
)
def clear_uniques(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of any kind
    """Uniqueness on what is in clear.

    Columns that are kept, public, strata or weights, or that came out as they were, are true. An intruder who knows
    somebody's values in them needs no distance: a record that is alone with its values is that person's, with all
    else that the release says of it. The part "smallest group" is k of k-anonymity in these columns. Luck finds nobody.
    """
    sizes = np.bincount(grouped(labels.of_clear.released)[1])
    alone = float((sizes == 1).sum()) / sizes.sum()
    note = f"in clear: {', '.join(labels.of_clear.names)}"
    return Estimate(alone, chance=0.0, note=note, parts={"smallest group": float(sizes.min())})


@paired_attack(
    "share of records whose nearest released record is their own, for an intruder who knows all columns, labels too",
    needs="others",
)
def mixed_linkage(
    original: Matrix, released: Matrix, *, labels: LabelPair, seed: int | None = None, pairs: int = PAIRS
) -> Estimate:
    """Distance-based linkage on columns of all kinds (Gower 1971, with ranks as Podani 1999 has it).

    The intruder has a record with its labels, dates and numbers, and takes the released record that differs least: by
    the mean over the columns of 0 or 1 for a label that is the same or another, and of the difference of ranks, as a
    share of all, for numbers, dates and ordered labels. Missing is a label. Columns in clear the intruder trusts:
    records that differ in these come after all that do not, and the part "in clear" is what these alone give, by luck
    among equal records. Of k records at the same distance each counts 1/k. With more pairs of records than `pairs` a
    sample of the originals is tried.
    """
    from microveil.measures.nearest._mixed_kernels import linked

    hidden, count = labels.hidden, len(labels.original)
    tried = sampled_rows(count, seed, pairs=pairs)
    columns = [
        *(_by_label(hidden, j) for j in range(len(hidden.names))),
        *(_by_rank(*both) for both in zip(original.columns, released.columns, strict=True)),
    ]
    # More than all others together: whoever differs in clear is somebody else. And first, as it settles most pairs.
    clear = np.zeros(len(columns), dtype=bool)
    clear[: len(hidden.names)] = hidden.in_clear
    first = np.argsort(~clear, kind="stable")
    weights = np.where(clear, len(columns) + 1.0, 1.0)[first]
    before, after = (np.column_stack([columns[j][side] for j in first]) for side in (0, 1))
    by_gap = np.array([columns[j][2] for j in first], dtype=np.uint8)
    order = Streams.from_seed(seed).stream("rivals").generator().permutation(count)
    parts = np.array_split(tried, min(worker_count(), tried.size))
    tasks = [partial(linked, before, after, by_gap, weights, part, order, LINKAGE_TIE) for part in parts]
    hits = float(np.concatenate(in_threads(tasks)).sum())
    alone = grouped(hidden.of_clear.released)[0].size / count
    hits = max(hits, alone * tried.size)  # an intruder may leave it at these
    note = f"by the columns in clear alone {alone:.4g}" if clear.any() else ""
    return share_of(hits, tried.size, chance=1 / count, of=count, note=note, parts={"in clear": alone})


def _by_rank(before: Array, after: Array) -> tuple[Array, Array, bool]:
    """A column of numbers by the place of each value among those of the original, from 0 to 1."""
    present = np.sort(before[~np.isnan(before)])
    sides = [(np.searchsorted(present, v, "left") + np.searchsorted(present, v, "right")) / 2 for v in (before, after)]
    old, new = (
        np.where(np.isnan(v), np.nan, side / max(present.size, 1))
        for v, side in zip((before, after), sides, strict=True)
    )
    return old, new, True


def _by_label(labels: LabelPair, j: int) -> tuple[Array, Array, bool]:
    """A column of labels by their numbers, or by their ranks, if they have an order."""
    old, new = (side[:, j].astype(np.float64) for side in (labels.original, labels.released))
    if labels.kinds[j] == "ordered" and not labels.in_clear[j]:
        return _by_rank(*(np.where(side == MISSING, np.nan, side) for side in (old, new)))
    return old, new, False
