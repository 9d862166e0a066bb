"""The intruder who looks from another angle: linkage in the directions that a method left alone."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.linalg import sorted_eigen
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import Links
from microveil.measures.nearest.standardisation import known_together, whitening_axes
from microveil.measures.risk.linkage import links_of, shares_by_luck
from microveil.measures.risk.proportions import PAIRS, attack, sampled_rows, share_of

ROUNDS = 20
"""Times the intruder learns from the links found so far, at most."""

SETTLED = 0.01
"""Share of links that change from one round to the next below which there is no more to learn."""

LEAST_GAP = 1e-9
"""Variance (of components of unit variance) below which the directions in which linked pairs differ are all alike."""

MOST_SIZES = 16
ALL_COLUMNS = "all columns"
ICA_ROWS = 20_000
ICA_ITERATIONS = 500


@attack(
    "share of records linked by an intruder who searches the release's principal and independent components for the "
    "directions that link best",
    paired=True,
    default=True,
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
    steps = range(1, count + 1) if count <= MOST_SIZES else np.geomspace(1, count, MOST_SIZES)
    for k in sorted({round(step) for step in steps} - {1}):
        yield f"the first {k} {kind} components", slice(0, k)
        if k < count:
            yield f"the last {k} {kind} components", slice(count - k, count)


def _rotation(white: Array, stream: Stream) -> Array:
    """The rotation to independent components, least normal first. Not converged is as good: any axes may be tried."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    generator = stream.generator()
    rows = generator.permutation(len(white))[:ICA_ROWS]
    start = generator.standard_normal((white.shape[1], white.shape[1]))
    model = FastICA(whiten=False, max_iter=ICA_ITERATIONS, w_init=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(white[rows])
    left, _, right = np.linalg.svd(model.components_.T)
    rotation: Array = left @ right
    # |x| has the mean sqrt(2/pi) if x is normal: how far it is away says how much a component stands out.
    strangeness = np.abs(np.abs(white[rows] @ rotation).mean(axis=0) - np.sqrt(2 / np.pi))
    return rotation[:, np.argsort(-strangeness, kind="stable")]


def _best_by_luck(found: dict[str, Links], known: Mask, count: int, streams: Streams) -> Array:
    """The best share over the subspaces in each of many releases with permuted rows."""
    best: Array = shares_by_luck(list(found.values()), known, count, streams.stream("shuffles")).max(axis=1)
    return best
