"""How fast the eigenvalues of a table fall, by the sigmoid of D'Acquisto and Naldi."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge
from microveil.measures.utility.moments import moments_of_both

FEWEST, MOST = 5, 20
"""Four parameters need five eigenvalues; the steepness depends on how many are fitted, so no more than these are."""

STARTS = [(a, b) for a in (1.05, 1.5, 3.0, 10.0) for b in (1.0, 2.0, 4.0)]


@dataclass(frozen=True)
class Decay:
    """y = d + (a - d) / (1 + (x / c)^b) fitted to λ_x / λ_1, x = 1 ... count (eq. 12)."""

    a: float
    b: float
    c: float
    d: float
    r2: float
    count: int
    at_bound: tuple[str, ...]

    @property
    def identified(self) -> bool:
        """No parameter is at its bound, and half of the fall is not over before the first eigenvalue is seen."""
        return not self.at_bound and self.c >= 1


def fit_decay(eigenvalues: Array) -> Decay:
    """Least squares within bounds, the best of twelve starts. A parameter at its bound is not identified."""
    from scipy.optimize import least_squares

    y = eigenvalues[:MOST] / eigenvalues[0]
    count = y.size
    if count < FEWEST:
        raise DataError(f"eigen_decay: {count} eigenvalues are too few for four parameters", f"it needs {FEWEST}")
    x = np.arange(1.0, count + 1)
    low, high = np.array([1.0, 0.1, 1e-3, -0.1]), np.array([100.0, 20.0, count, 1.0])

    def misfit(theta: Array) -> Array:
        a, b, c, d = theta
        gap: Array = d + (a - d) / (1 + (x / c) ** b) - y
        return gap

    def slopes(theta: Array) -> Array:
        a, b, c, d = theta
        rise = (x / c) ** b
        share = 1 / (1 + rise)
        bend = (a - d) * share**2 * rise
        return np.column_stack([share, -bend * np.log(x / c), bend * b / c, 1 - share])

    starts = [[a, b, min(2.0, count / 2), 0.0] for a, b in STARTS]
    # Along the flat valley of a fast fall, this method arrives at the bound where others creep.
    fits = [
        least_squares(misfit, start, jac=slopes, bounds=(low, high), method="dogbox", x_scale="jac") for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    near = np.isclose(best.x, low, rtol=1e-3, atol=0) | np.isclose(best.x, high, rtol=1e-3, atol=0)
    names = tuple(name for name, hit in zip("abcd", near, strict=True) if hit)
    r2 = 1 - 2 * float(best.cost) / float(np.square(y - y.mean()).sum()) if np.ptp(y) > 0 else 1.0
    a, b, c, d = (float(value) for value in best.x)
    return Decay(a, b, c, d, r2, count, names)


@gauge(
    "steepness b of the sigmoid that the eigenvalues of the original's correlation matrix follow",
    better="neither",
    range=(0.1, 20),
    on_disk="passes",
    on_spark=True,
)
def eigen_decay(original: Matrix, released: Matrix) -> Estimate:
    """The shape b of the fall of the eigenvalues (D'Acquisto and Naldi, eq. 12), of at most the first 20.

    Two tables with the same b and the same share of the first eigenvalue should bear the removal of as many components.
    Where the fall is fast, parameters run into their bounds and b says little; the note warns. The part "released
    share" is that of the release's first eigenvalue. Fewer than five eigenvalues are refused. No sampling is involved.
    """
    old, new = moments_of_both(original, released)
    values, after = (np.clip(sorted_eigen(side.correlation())[0], 0, None) for side in (old, new))
    fit = fit_decay(values[: rank_of(values)])
    bound = f"; {', '.join(fit.at_bound)} ran into a bound" if fit.at_bound else ""
    vague = "" if fit.identified else "; b is poorly identified"
    return Estimate(
        fit.b,
        note=f"from {fit.count} eigenvalues{bound}{vague}",
        parts={
            **{name: getattr(fit, name) for name in ("a", "b", "c", "d", "r2")},
            "share": float(values[0] / values.sum()),
            "released share": float(after[0] / after.sum()),
        },
    )
