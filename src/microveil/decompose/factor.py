"""Factor analysis (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.late import optimize
from microveil.core.linalg import sorted_eigen, square_root
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.core.tolerances import RANK_TOLERANCE
from microveil.decompose.axes import axes_of_factor, generalised_cholesky
from microveil.decompose.base import Axes, Decomposition, Sample, number_or_word

LEAST_UNIQUE = 0.005
"""Share of its variance that a column keeps for itself at least: communalities stay below 0.995, as in R's psych."""

TOLERANCE = 1e-7
"""Change of the communalities below which the principal axes have settled."""

ROUNDS = 500
"""Rounds at most. With as many factors as columns, many communalities fit equally well, and where some want to pass the
limit the rounds creep along it: on Tarragona they explain 88.65 % here and would end at 88.80 %."""

NEARLY = 1e-3
"""Uniquenesses that are this near to an exact solution (as a share of themselves) are made exact."""


class FactorAnalysis(Decomposition):
    """Common factors, each shared by several columns, and for every column the rest that it shares with none.

    Z = F L' + e (eq. 2), with the standardised data Z. Factors that are linear in Z cannot be uncorrelated with the
    rest e, as the method needs them to be, unless e is zero. So `exact` scores (Guttman 1955) add noise that is
    uncorrelated with the data: F = Z R⁻¹ L + U (I - L'R⁻¹L)^½, with U of unit variance. Then Cov(F) = I, Cov(F, e) = 0
    and Cov(Z, F) = L hold exactly, and so does the identity, because the rest has the same noise with the opposite
    sign. `regression` scores do without, as most software does; they are correlated with the rest, and variances shrink
    when they are perturbed.

    The rest of the columns enters as components too, one for each, made exactly uncorrelated by Gram-Schmidt: where the
    factors fit the correlations exactly, this is each column's own rest divided by its standard deviation.
    """

    most_columns: ClassVar[int | None] = 1_000  # hundreds of rounds, each with the eigenvectors of a matrix of them

    extraction: Literal["principal_axes", "minres", "ml"] = Field(
        default="principal_axes",
        description="how loadings are found: principal axes iterated from squared multiple correlations, least "
        "squares of the correlations, or maximum likelihood",
    )
    factors: Annotated[Literal["all"] | Annotated[int, Field(ge=1)], number_or_word] = Field(
        default="all",
        description="how many factors to look for; all is as many as columns, of which those that explain nothing "
        "are dropped",
        json_schema_extra={"allowed": "all, or a number from 1"},
    )
    scores: Literal["exact", "regression"] = Field(
        default="exact",
        description="how a record's factors are found: exact (uncorrelated with the rest, so that covariances "
        "stay) or by regression on the columns (variances shrink)",
    )

    @property
    def uncorrelated(self) -> bool:
        """Only exact scores are."""
        return self.scores == "exact"

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """Loadings from the correlation matrix, then the scores' projection."""
        sd = centred.sd
        correlation = _positive(centred.covariance / np.outer(sd, sd))
        count = sd.size if self.factors == "all" else self.factors
        if count > sd.size:
            raise ParameterError(f"factors: {count} asked, but there are {sd.size} columns", "ask for fewer")
        loadings = EXTRACTIONS[self.extraction](correlation, count)
        if self.scores == "exact":
            loadings = _within(correlation, loadings)
        found, few = loadings.shape[1], self.factors != "all"
        remark = f"{count} factors asked, but only {found} explain anything" if few and found < count else ""
        return _axes(correlation, loadings, sd, exact=self.scores == "exact", remark=remark)


def _axes(correlation: Array, loadings: Array, sd: Array, *, exact: bool, remark: str) -> Axes:
    """Axes of the factors and of the rest, from Cov(Z) = R (`correlation`, p x p) and the loadings L (p x factors).

    `sd` has the standard deviations of the columns; `exact` scores add noise; the `remark` is for the owner.
    """
    width, count = loadings.shape
    onto_factors = np.linalg.solve(correlation, loadings)  # R⁻¹ L
    determined = loadings.T @ onto_factors  # S = L'R⁻¹L: the covariance of what the data tell of the factors
    onto_rest = np.eye(width) - onto_factors @ loadings.T
    if exact and count:
        entering = square_root(np.eye(count) - determined)
        rest = correlation - loadings @ loadings.T
        variance = np.ones(count)
    else:
        entering = None
        rest = onto_rest.T @ correlation @ onto_rest
        variance = np.diagonal(determined)
    unit = np.sqrt(np.maximum(np.diagonal(rest), RANK_TOLERANCE**2))
    root, pivots = generalised_cholesky(rest / np.outer(unit, unit))
    own = axes_of_factor(root, pivots, unit)  # turns the rest into its components
    return Axes(
        projection=np.hstack([onto_factors, onto_rest @ own.projection]) / sd[:, None],
        loadings=np.vstack([loadings.T, own.loadings]) * sd,
        variance=np.concatenate([variance, np.ones(len(pivots))]),
        weights=np.hstack([loadings, own.loadings.T]),
        remark=remark,
        noise=None if entering is None else np.hstack([entering, -entering @ loadings.T @ own.projection]),
        rest_of=tuple(pivots),
    )


# --- Extraction: from a correlation matrix and a number of factors to loadings


def principal_axes(correlation: Array, count: int) -> Array:
    """Iterated principal axes: eigenvectors of R - Psi, with Psi the uniqueness that the loadings before them left."""
    uniqueness = _start(correlation)
    for _ in range(ROUNDS):
        explained = np.square(_leading(correlation, uniqueness, count)).sum(axis=1)
        before, uniqueness = uniqueness, np.maximum(1 - explained, LEAST_UNIQUE)
        if np.abs(uniqueness - before).max() < TOLERANCE:
            break
    return _leading(correlation, _closed(correlation, uniqueness), count)


def minres(correlation: Array, count: int) -> Array:
    """Minimum residuals (Harman and Jones 1966): the uniqueness that leaves the least of R - Psi unexplained."""

    def unexplained(uniqueness: Array) -> tuple[float, Array]:
        values, vectors = np.linalg.eigh(correlation - np.diag(uniqueness))
        left = values.copy()
        left[left.size - count :] = np.minimum(left[left.size - count :], 0)
        return 0.5 * float(left @ left), -np.square(vectors) @ left

    return _leading(correlation, _closed(correlation, _minimised(unexplained, correlation)), count)


def maximum_likelihood(correlation: Array, count: int) -> Array:
    """Maximum likelihood of normal data (Jöreskog 1967): R in units of the uniqueness has eigenvalues of 1 beyond L."""

    def unlikelihood(uniqueness: Array) -> tuple[float, Array]:
        unit = np.sqrt(uniqueness)
        values, vectors = np.linalg.eigh(correlation / np.outer(unit, unit))
        left = values.copy()
        left[left.size - count :] = np.minimum(left[left.size - count :], 1)
        return float((left - np.log(left) - 1).sum()), np.square(vectors) @ (1 - left) / uniqueness

    unit = np.sqrt(_closed(correlation, _minimised(unlikelihood, correlation)))
    return unit[:, None] * _leading(correlation / np.outer(unit, unit), np.ones(unit.size), count)


EXTRACTIONS: dict[str, Callable[[Array, int], Array]] = {
    "principal_axes": principal_axes,
    "minres": minres,
    "ml": maximum_likelihood,
}


def _start(correlation: Array) -> Array:
    """One minus each column's squared multiple correlation with the others, but not below the limit."""
    alone: Array = 1 / np.diagonal(np.linalg.inv(correlation))
    return np.clip(alone, LEAST_UNIQUE, 1.0)


def _minimised(function: Callable[[Array], tuple[float, Array]], correlation: Array) -> Array:
    """The uniqueness at which the function (with its gradient) is least, within the limits."""
    start = _start(correlation)
    limits = [(LEAST_UNIQUE, 1.0)] * start.size
    found: Array = optimize.minimize(
        function, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 1_000}
    ).x
    return found


def _leading(correlation: Array, uniqueness: Array, count: int) -> Array:
    """Loadings of R - Psi: its first eigenvectors, at the variance they explain, without any that explain none."""
    values, vectors = sorted_eigen(correlation - np.diag(uniqueness))
    some = min(np.count_nonzero(values > RANK_TOLERANCE**2 * values.size), count)
    return vectors[:, :some] * np.sqrt(values[:some])


def _closed(correlation: Array, uniqueness: Array) -> Array:
    """The uniqueness, made exact where it nearly is: the largest multiple for which R - Psi has no negative eigenvalue.

    Rounds end a little before that, and the rests of the columns would then be a little correlated.
    """
    unit = np.sqrt(uniqueness)
    largest = np.linalg.eigvalsh(correlation / np.outer(unit, unit))[0]
    return uniqueness * largest if 1 - NEARLY < largest < 1 else uniqueness


# --- Linear algebra of matrices that are covariances up to round-off


def _positive(correlation: Array) -> Array:
    """The correlation matrix without the round-off that makes directions of no variance negative."""
    values, vectors = sorted_eigen(correlation)
    least = RANK_TOLERANCE**2 * values.size * values[0]
    return correlation if values[-1] > least else (vectors * np.maximum(values, least)) @ vectors.T


def _within(correlation: Array, loadings: Array) -> Array:
    """The loadings, cut back where they explain more of a combination of columns than there is.

    Few factors, fitted to each column's variance, may together claim more than all of a combination of columns; then
    no scores have these loadings. In units of the data (R^-½ L) the claim is a singular value above 1. Loadings of
    R (R + m I)⁻¹ L claim less the larger m is, and least of combinations of little variance, where most is claimed too
    much; m is such that the combination keeps for itself what a column keeps at least.
    """
    values, vectors = sorted_eigen(correlation)
    along = vectors.T @ loadings

    def excess(log_ridge: float) -> float:
        claims = (np.sqrt(values) / (values + math.exp(log_ridge)))[:, None] * along
        return float(np.linalg.norm(claims, 2)) - math.sqrt(1 - LEAST_UNIQUE)

    if loadings.shape[1] == 0 or np.linalg.norm(along / np.sqrt(values)[:, None], 2) <= 1:
        return loadings
    ridge = math.exp(optimize.brentq(excess, math.log(RANK_TOLERANCE**4), math.log(1e3 * values[0]), xtol=1e-6))
    return vectors @ ((values / (values + ridge))[:, None] * along)
