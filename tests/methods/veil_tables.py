"""Tables of firms and what is measured on their releases, for tests of veil."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import spearmanr

import microveil as mv
from microveil.core.table import Matrix
from microveil.measures import risk
from microveil.measures.base import Measure

Array = NDArray[np.float64]


NAMES = ["sales", "export", "staff", "margin", "result", "assets", "member", "energy"]


ROWS = 800


def factors(rows: int = ROWS, columns: int = 8, seed: int = 5) -> Array:
    """Lognormal columns with three factors in common: correlated, with heavy tails."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((rows, 3)) @ rng.uniform(-0.2, 0.9, (3, columns))
    return np.exp(common + 0.5 * rng.standard_normal((rows, columns)))


def firms(rows: int = ROWS, seed: int = 5) -> pd.DataFrame:
    """What files have: amounts, many zeros, counts, percentages, both signs, hundreds, a flag."""
    size, rng = factors(rows, seed=seed), np.random.default_rng(seed + 1)
    return pd.DataFrame(
        {
            "sales": 1000 * size[:, 0],
            "export": np.where(rng.random(rows) < 0.4, 0.0, 100 * size[:, 1]),
            "staff": np.round(10 * size[:, 2]),
            "margin": np.round(100 * size[:, 3] / (1 + size[:, 3]), 1),
            "result": 50 * (size[:, 4] - size[:, 0]),
            "assets": 100 * np.round(1000 * size[:, 5]),
            "member": (size[:, 6] > 1.5).astype(float),
            "energy": size[:, 7],
        }
    )


@cache
def released(seed: int = 1) -> mv.Release:
    return mv.protect(firms(), seed=seed)


def pair(before: Any, after: Any) -> tuple[Matrix, Matrix]:
    return tuple(Matrix.from_array(np.ascontiguousarray(side, dtype=float)) for side in (before, after))


def correlation_error(before: Any, after: Any) -> tuple[float, float]:
    """The worst of Pearson's and of Spearman's correlations."""
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    pearson = np.abs(np.corrcoef(before.T) - np.corrcoef(after.T)).max()
    return float(pearson), float(np.abs(spearmanr(before)[0] - spearmanr(after)[0]).max())


def harmless(found: Measure) -> bool:
    """Not above one percent, or no more than luck gives."""
    luck = found.parts.get("95 % of shuffled releases", found.chance)
    return found.value <= 0.01 or found.low <= luck


def attacks(before: Any, after: Any) -> dict[str, Measure]:
    both = pair(before, after)
    return {
        attack.id: attack(*both, seed=1)
        for attack in (
            risk.MEASURES["dbrl"],
            risk.MEASURES["mahalanobis_linkage"],
            risk.MEASURES["rank_linkage"],
            risk.MEASURES["subspace_linkage"],
        )
    }
