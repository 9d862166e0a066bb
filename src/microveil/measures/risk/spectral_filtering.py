"""Spectral filtering: noise that does not know the correlations can be filtered out.

The intruder sees data with noise added to every column by itself. The columns go together, the noise does not: so the
data lie in few directions, the leading principal components of the release, and the noise in all directions alike. What
lies in the trailing components is mostly noise. The intruder throws it away (Kargupta et al. 2003), or weighs every
component by its share of signal (Huang, Du and Chen 2005), and is left with less noise than the owner believes.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.linalg import sorted_eigen
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, scales, standardised
from microveil.measures.risk.proportions import attack

SHUFFLES = 10

EXACT = 1e-12
"""Unexplained variance (in units of the original's) below which the release is the original, up to its units."""


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
