"""Record linkage: can an intruder who knows a record find it in the release?

All attacks here have one story. The intruder holds some records with their original values (from a register, a
newspaper, a rival's books), and looks for each of them in the release, taking the nearest record. They differ in what
the intruder means by "near". All originals are tried, up to 200,000 of them, and a random sample if there are more (an
attack that searches often takes one sooner); all released records compete. What becomes of missing cells is told in
`nearest/standardisation.py`.
The last looks from another angle, in the directions that a method left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.linalg import fast_ica, sorted_eigen
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import Links, link, link_pieces
from microveil.measures.nearest.standardisation import (
    StandardisedPair,
    known_together,
    on_axes,
    plain_view,
    ranked_view,
    standardised_pieces,
    whitened_view,
    whitening_axes,
    whitening_axes_of,
)
from microveil.measures.risk.proportions import EXACT_PAIRS, PAIRS, paired_attack, sampled_rows, share_of

MOST_ASSIGNED = 2_000
"""Records matched one to one at most: the work grows with the cube."""

DRAWS_PER_SIZE = 5
MOST_SIZES = 12

SHUFFLES = 200
"""Row-permuted releases that the chance of the best of many searches is measured on."""

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

    The intruder has the original values of a record in every column, and takes the nearest released record for
    it (Euclidean, columns in units of the original's standard deviation). A hit is an original record to which
    no released record is nearer than its own; of k records at the same distance each counts 1/k, as the intruder
    has to guess. With more pairs of records than `pairs` a sample of the originals is tried; where released records
    are not in memory, a `sample` of so many.
    """
    tried = sampled_rows(original.shape[0], seed, pairs=pairs, sample=sample)
    if sample is not None:
        return _share_linked(links_in_pieces(original, released, tried), original)
    return _share_linked(_links_in(plain_view(original, released), tried), original)


@paired_attack(
    "share of records whose nearest released record is their own, by distances that allow for the correlations",
    on_disk="passes",
)
def mahalanobis_linkage(
    original: Matrix, released: Matrix, *, seed: int | None = None, sample: int | None = None
) -> Estimate:
    """Linkage in coordinates without correlation (Mahalanobis distance; Torra, Abowd and Domingo-Ferrer 2006).

    The intruder knows that turnover and profit go together, so that a difference in both counts once, and that a
    small difference against the run of the data tells more than a large one along it. So the columns are turned into
    principal components of the original, each brought to unit variance; components that are round-off are left out.
    Where released records are not in memory, a `sample` of so many originals is tried.
    """
    tried = sampled_rows(original.shape[0], seed, sample=sample)
    if sample is not None:
        return _share_linked(links_in_pieces(original, released, tried, whitening_axes_of(original)), original)
    return _share_linked(_links_in(whitened_view(original, released), tried), original)


@paired_attack("share of records whose nearest released record is their own, by the ranks of their values")
def rank_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage by ranks (Muralidhar and Domingo-Ferrer 2016).

    The intruder does not trust the released values, but the order: the third largest firm is probably still among
    the largest. Each value is replaced by its rank in its own file (equal values share their mean rank), so that any
    monotone transformation and the long tails of a column are of no avail.
    """
    return _share_linked(_links_in(ranked_view(original, released), sampled_rows(original.shape[0], seed)), original)


@paired_attack(
    "share of records that are matched to their own when all are matched one to one at the least total distance",
    on_disk="passes",
)
def optimal_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """One-to-one linkage (Domingo-Ferrer, Muralidhar and Bras-Amorós 2020: the permutation paradigm's intruder).

    The intruder holds the whole original file and knows that each of its records is in the release exactly once. So a
    released record that fits one original perfectly is not offered to another, and the assignment with the least sum
    of squared distances is taken. Above 2,000 records a random sample of originals is matched with *their* releases;
    with fewer rivals the intruder does better, so the figure is then rather too high.
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
    "share of records linked by an intruder who knows some of the columns, at the number of columns that tells most"
)
def known_columns_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage by some of the columns.

    No intruder knows everything. Here one knows 1, 2, 3 ... columns of a record, and takes the released record that is
    nearest in those. For each number of columns the share linked is the mean over five random choices of columns; the
    parts hold the whole curve, the value its highest point. That is above a guess even if nothing is there to be found;
    so chance is measured, as in `subspace_linkage`: the highest point in releases whose rows are permuted.
    """
    before, after = standardised(original, released)
    count, width = before.shape
    tried = sampled_rows(count, seed, pairs=PAIRS // 10)
    streams = Streams.from_seed(seed)
    stream = streams.stream("known columns")
    found: dict[int, list[Links]] = {}
    known = []
    for size in sorted({round(step) for step in np.linspace(1, width, min(width, MOST_SIZES))}):
        draws = DRAWS_PER_SIZE if size < width else 1
        generator = stream.generator(size)
        chosen = [np.sort(generator.choice(width, size, replace=False)) for _ in range(draws)]
        found[size] = [links_of(before[:, columns], after[:, columns], tried) for columns in chosen]
        known += [known_together(before[:, columns], after[:, columns])[tried] for columns in chosen]
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


def links_of(before: Array, after: Array, tried: Index, known: Mask | None = None) -> Links:
    """Link the originals tried to the released records; those nothing is known of are no hits.

    Both files are n x k in common units, NaN where a cell is missing; `known` (n) is found out if it is not given.
    """
    known = known_together(before, after) if known is None else known
    found = link(np.nan_to_num(before[tried]), np.nan_to_num(after), tried)
    return Links(found.nearest, np.where(known[tried], found.credit, 0.0))


def shares_by_luck(found: list[Links], known: Mask, count: int, stream: Stream) -> Array:
    """The share linked by each search in each of many releases with permuted rows, shuffles x searches.

    Neighbours stay what they are under a permutation; so no search is repeated, and it is only counted how often the
    neighbour found happens to be the record's own (of equally near ones the first, which spreads a little more than
    the guess among them). One stream gives the same permutations again. `known` is searches x records tried, and
    `count` the number of released records.
    """
    nearest = np.stack([links.nearest for links in found])
    generator = stream.generator()
    shares = np.empty((SHUFFLES, len(found)))
    for shuffle in range(SHUFFLES):
        own = generator.choice(count, nearest.shape[1], replace=False)
        shares[shuffle] = ((nearest == own) & known).mean(axis=1)
    return shares


def links_in_pieces(
    original: Matrix, released: Matrix, tried: Index, axes: Array | None = None, *, own_barred: bool = False
) -> Links:
    """Link the originals tried to released records that are read piece by piece.

    Distances are in standard deviations of the original, or on `axes` of columns in these units. With `own_barred` no
    original is linked to the record of its own row: that is itself.
    """
    before, own = standardised(original, released, tried)
    queries, count = on_axes(before, axes), released.shape[0]
    piece_of = standardised_pieces(original, released, axes)
    if own_barred:
        return link_pieces(queries, None, count, piece_of, barred=tried)
    found = link_pieces(queries, on_axes(own, axes), count, piece_of)
    return Links(found.nearest, np.where(known_together(before, own), found.credit, 0.0))


def _links_in(view: StandardisedPair, tried: Index) -> Links:
    return links_of(view.before, view.after, tried, view.known)


def _share_linked(links: Links, original: Matrix) -> Estimate:
    count = original.shape[0]
    return share_of(links.hits, links.credit.size, chance=1 / count, of=count)


@paired_attack(
    "share of records linked by an intruder who searches the release's principal and independent components for the "
    "directions that link best"
)
def subspace_linkage(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Linkage in the best of many subspaces.

    The intruder knows how such releases are made: some components of the data are perturbed, others hardly or not at
    all. The components can be read off the release itself, as its correlations are (nearly) those of the original. So
    the intruder computes the principal components of the *release*, and its independent components by FastICA,
    projects the known originals and the released records on them, and tries: the leading k, the trailing k and each
    single component, of both kinds, each component in units of its own spread, beside the plain linkage of `dbrl`. If
    the best of these is better than luck, the intruder learns from its links in which directions linked pairs differ
    least, and links again by those, a few times over. The share linked in the best of all is reported, as if the
    intruder had a few known pairs to find out which is best.

    The best of many tries is higher than one try even if nothing is there to be found. So chance is measured: the same
    search in releases whose rows are permuted (which changes neither axes nor neighbours, only whose record is whose),
    mean over 200 of them. The interval is that of the best subspace taken by itself.
    """
    if not scales(released):
        guesses = 0.0 if all(np.isnan(column).all() for column in released.columns) else 1.0
        count = released.shape[0]
        return share_of(guesses, count, chance=1 / count, note="the release is constant: there is nothing to link by")
    after, before = standardised(released, original)  # on the scale of the release, which is all the intruder has
    known = known_together(before, after)
    before, after = np.nan_to_num(before), np.nan_to_num(after)
    streams = Streams.from_seed(seed)
    tried = sampled_rows(len(before), seed, pairs=PAIRS // 20)
    found = {ALL_COLUMNS: links_of(*standardised(original, released), tried)}
    for name, both in _subspaces(before, after, streams.stream("axes")):
        found[name] = links_of(*both, tried, known)
    luck = _best_by_luck(found, known[tried], len(after), streams)
    start = max(found.values(), key=lambda links: links.hits)
    if start.hits / tried.size > np.quantile(luck, 0.95):  # else there is nothing to learn from
        found |= _learnt(before, after, known, tried, start)
        luck = _best_by_luck(found, known[tried], len(after), streams)
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


def _subspaces(before: Array, after: Array, stream: Stream) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """Names of subspaces, with both files projected on them."""
    principal = whitening_axes(after)
    kinds = {"principal": principal}
    if 1 < principal.shape[1] < len(after):
        kinds["independent"] = principal @ _rotation(after @ principal, stream)
    for kind, axes in kinds.items():
        projected, onto = before @ axes, after @ axes
        for name, chosen in selections(principal.shape[1], kind):
            yield name, (projected[:, chosen], onto[:, chosen])


def _learnt(before: Array, after: Array, known: Mask, tried: Index, links: Links) -> Iterator[tuple[str, Links]]:
    """Links in directions learnt from the links before, right or wrong as they are.

    Pairs that are linked rightly agree in what was left alone, and wrong ones do not agree in what was not. So each
    direction is weighed by how little the linked pairs differ in it, and the search is repeated with these weights.
    Both files are n x k, `known` (n) says of whom anything is known, and `links` are of the rows `tried`.
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


def _best_by_luck(found: dict[str, Links], known: Mask, count: int, streams: Streams) -> Array:
    """The best share over the subspaces in each of many releases with permuted rows."""
    best: Array = shares_by_luck(list(found.values()), known, count, streams.stream("shuffles")).max(axis=1)
    return best
