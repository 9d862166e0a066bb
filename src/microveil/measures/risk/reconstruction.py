"""Reconstruction: exact facts about a record, left in the release by what was not touched, and noise filtered out.

The intruder has found somebody's released record (component removal links every one), knows a few of the original
values, and wants the others. A method that perturbs or removes some components leaves all others of each record as they
were; and which these are can be read off the release: removed components are the directions without variance, and where
covariances are kept exactly the axes are the original's own. So the original differs from its release in a few known
directions only, by amounts that a few known values determine, and the rest is arithmetic.

Another intruder sees data with noise added to every column by itself. The columns go together, the noise does not: so
the data lie in few directions, the leading principal components of the release, and the noise in all directions alike.
What lies in the trailing components is mostly noise. The intruder throws it away (Kargupta et al. 2003), or weighs all
components by their share of signal (Huang, Du and Chen 2005), and is left with less noise than the owner believes.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import independent_columns, sorted_eigen
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.risk.linkage import selections
from microveil.measures.risk.proportions import attack, sampled_rows, share_of

WITHIN = 0.01
"""A value is reconstructed if the guess is this near, in standard deviations of the column."""

DRAWS_PER_SIZE = 5
MOST_SIZES = 12
MOST_TRIED = 2_000

NO_MORE = 0.01
"""A gain in the share of values that is not worth another known column."""

VAGUE = 1e-6
"""Known values that say less than this of a direction say nothing of it."""

SHUFFLES = 10

Curve = dict[int, float]
"""The share of values that are computed, by the number of columns known."""

EXACT = 1e-12
"""Unexplained variance (in units of the original's) below which the release is the original, up to its units."""


@attack(
    "share of unknown values that follow within 1 % of a standard deviation from the release and some known values",
    paired=True,
)
def reconstruction(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Values computed from the components that were left alone (D'Acquisto and Naldi's removal, partial swaps).

    The intruder knows 1, 2, 3 ... columns of a record, five random choices each, its own released record, and means and
    standard deviations of the original. Changed components are taken to be a single one, the leading k or the trailing
    k of the release's principal components (removed ones are trailing), the best of all these being reported, as if the
    method were known; the difference between original and release is solved for in them by least squares. Where columns
    are computed from others by a rule, both is tried: with them, and without, as methods leave them out (of a total and
    its parts the total).

    The same with a *stranger's* released record is the chance level: what the known values and rules between columns
    give by themselves (a total whose parts are known is no disclosure of the release). The figure is that of the fewest
    known columns with which the attack gains most over it; the parts have the whole curve.
    """
    whole, chosen = list(scales(original, needed=True)), _independent(original)
    if len(whole) < 2:
        raise DataError("reconstruction: needs two columns that vary", "there must be one to know and one to compute")
    rows = sampled_rows(original.shape[0], seed, sample=MOST_TRIED)
    sets = [whole] if len(chosen) in (0, 1, len(whole)) else [whole, chosen]
    curves = (_curves(original.select(some), released.select(some), rows, seed) for some in sets)
    own, luck = max(curves, key=_gain)
    gain = _gain((own, luck))
    fewest = next(size for size in own if own[size] - luck[size] >= gain - NO_MORE)
    power = "" if gain > NO_MORE else "; the attack had no power: a stranger's record gives as much"
    return share_of(
        own[fewest] * rows.size,
        rows.size,
        chance=luck[fewest],
        of=original.shape[0],
        note=f"with {fewest} of {max(own) + 1} columns known{power}",
        parts={f"{size} known": share for size, share in own.items()},
    )


def _gain(curves: tuple[Curve, Curve]) -> float:
    """The most that the own record gives away beyond another one."""
    own, luck = curves
    return max(own[size] - luck[size] for size in own)


def _curves(original: Matrix, released: Matrix, rows: Index, seed: int | None) -> tuple[Curve, Curve]:
    """Of some `rows`, what is computed from the own released record, and from a stranger's."""
    before, after = standardised(original, released)
    width, streams = before.shape[1], Streams.from_seed(seed)
    order = streams.stream("strangers").generator().permutation(rows.size)
    own, strangers = rows[order], rows[np.roll(order, 1)]
    filled = np.nan_to_num(after)
    axes = sorted_eigen(filled.T @ filled / len(filled))[1]
    directions = [axes[:, chosen] for _, chosen in selections(width, "principal") if chosen != slice(0, width)]
    truth = before[own]
    found, luck = Curve(), Curve()
    for size in sorted({round(step) for step in np.linspace(1, width - 1, min(width - 1, MOST_SIZES))}):
        generator = streams.stream("known columns").generator(size)
        draws = [generator.permutation(width)[:size] for _ in range(DRAWS_PER_SIZE)]
        for shares, release in ((found, after[own]), (luck, after[strangers])):
            # In those of the directions in which most cells are computed.
            shares[size] = max(
                float(np.mean([_computed(truth, release, changed, known) for known in draws])) for changed in directions
            )
    return found, luck


def _independent(original: Matrix) -> list[int]:
    """Columns that vary and are not determined by others that vary less; in their order."""
    found = scales(original, needed=True)
    numbers = sorted(found, key=lambda j: found[j][1])
    values = np.column_stack([np.nan_to_num((original.columns[j] - found[j][0]) / found[j][1]) for j in numbers])
    return sorted(numbers[place] for place in independent_columns(values.T @ values / len(values)))


def _computed(truth: Array, released: Array, changed: Array, known: Index) -> float:
    """The share of unknown cells that follow from the known ones, if only the `changed` directions differ."""
    unknown = np.delete(np.arange(truth.shape[1]), known)
    moved = np.nan_to_num(truth[:, known] - released[:, known])
    guesses = released[:, unknown] + moved @ (changed[unknown] @ np.linalg.pinv(changed[known], rcond=VAGUE)).T
    hits = int(np.count_nonzero(np.abs(guesses - truth[:, unknown]) <= WITHIN))
    return hits / max(int(np.count_nonzero(~np.isnan(truth[:, unknown]))), 1)


@attack("share of what the release hides of each value (as noise) that spectral filtering removes again", paired=True)
def spectral_filtering(
    original: Matrix, released: Matrix, *, noise_sd_ratio: float | None = None, seed: int | None = None
) -> Estimate:
    """Noise removed by projection on the leading components, or by weighing all of them, whichever is better.

    Columns are in standard deviations of the release, in which noise proportional to them has one level. It is known
    if `noise_sd_ratio` is given (standard deviation of the noise over that of the original; owners publish it);
    otherwise the smallest eigenvalue is taken to be all noise. Components count as leading if their eigenvalue is above
    what pure noise of that level gives (Marchenko and Pastur: σ²(1 + sqrt(p/n))²); the weights of the other filter are
    1 - σ²/λ.

    The figure is 1 - (unexplained after filtering) / (unexplained before), where unexplained is the variance that a
    linear function of the released (or filtered) column leaves of the original one. So a mere shrinking towards the
    mean gains nothing, and where records were exchanged (swapping) there is nothing to filter. Chance is that of
    releases with permuted rows. The interval is that of a ratio of sums over the records.
    """
    if noise_sd_ratio is not None and not noise_sd_ratio > 0:
        raise ParameterError("noise_sd_ratio: must be above 0", "leave it out if it is not known")
    if not scales(released):
        return Estimate(0.0, chance=0.0, note="the attack had no power: the release is constant")
    after, before = standardised(released, original)
    before = np.where(np.isnan(after), np.nan, before)  # a cell that was not released is no noise to be removed
    after = np.nan_to_num(after)
    filters = _filters(after, noise_sd_ratio)
    found = {name: _removed(before, after, filtered) for name, filtered in filters.items()}
    value, low, high = max(found.values())
    generator = Streams.from_seed(seed).stream("permuted rows").generator()
    luck = []
    for _ in range(SHUFFLES):
        rows = generator.permutation(len(after))
        luck.append(max(_removed(before, after[rows], filtered[rows])[0] for filtered in filters.values()))
    chance = float(np.maximum(luck, 0).mean())
    power = "" if low > chance else "the attack had no power: filtering removes nothing of what hides the values"
    return Estimate(
        max(value, 0.0),
        max(low, 0.0),
        max(high, 0.0),
        chance,
        note=power,
        parts={name: share for name, (share, _, _) in found.items()},
    )


def _filters(after: Array, noise_sd_ratio: float | None) -> dict[str, Array]:
    """The released records, filtered in either way."""
    count, width = after.shape
    values, vectors = sorted_eigen(after.T @ after / count)
    edge = np.sqrt(min(width / count, 1.0))
    if noise_sd_ratio is None:
        noise = max(values[-1], 0.0) / max((1 - edge) ** 2, 0.25)
    else:
        noise = noise_sd_ratio**2 / (1 + noise_sd_ratio**2)
    leading = vectors[:, values > noise * (1 + edge) ** 2]
    weights = np.clip(1 - noise / np.maximum(values, np.finfo(float).tiny), 0, 1)
    return {"projected": after @ leading @ leading.T, "weighed": (after @ (vectors * weights)) @ vectors.T}


def _removed(before: Array, after: Array, filtered: Array) -> tuple[float, float, float]:
    """The share of the unexplained variance that the filter removes, and its interval."""
    old, new = _unexplained(before, after), _unexplained(before, filtered)
    total = old.sum()
    if total <= EXACT * old.size:
        return 1.0, 1.0, 1.0
    value = 1 - new.sum() / total
    margin = 1.96 * float(np.sqrt(np.square(new - (1 - value) * old).sum())) / total
    return float(value), float(value - margin), float(min(value + margin, 1.0))


def _unexplained(before: Array, after: Array) -> Array:
    """For each record, the sum over its cells of the squared residual of the original's regression on the release's."""
    squares = np.zeros(len(before))
    for old, new in zip(before.T, after.T, strict=True):
        there = ~np.isnan(old)
        if there.any():
            x, y = new[there] - new[there].mean(), old[there] - old[there].mean()
            spread = x @ x
            slope = (x @ y) / spread if spread > 0 else 0.0
            squares[there] += np.square(y - slope * x)
    return squares
