"""Independent components (Hsu and Chen 2008) and invariant coordinates (Tyler, Critchley, Dümbgen and Oja 2009)."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import fast_ica, inverse_square_root, sorted_eigen
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.axes import standard_axes
from microveil.decompose.base import Axes, Decomposition, Sample, number_or_word

SAMPLE_ROWS = 20_000
"""Rows the rotation is fitted on: it has m² numbers, and more rows only make it slower."""

RESTARTS = 3
ITERATIONS = 1_000

MANY = 200
"""Sources from which on one start of so many iterations has to do: each takes the eigenvectors of a matrix of them."""


class IndependentComponents(Decomposition):
    """Components that are independent as far as a rotation can make them, not only uncorrelated.

    The columns are standardised and whitened by their principal components (without those that are round-off), and
    FastICA finds the rotation that makes the components least normal. The rotation is forced to be orthogonal, so that
    the sources are exactly uncorrelated with unit variance. If it does not converge, two more starts are tried (none
    with more than 200 sources), and the least normal result is used with a warning: any rotation restores the data,
    only a worse one mixes the sources.
    With fewer `sources` than dimensions, the principal components beyond them are components too: perturbed like the
    sources, or kept, which hands them to anyone who looks for them.
    """

    reference: ClassVar[str] = "Hsu and Chen (2008), Table 2; Hyvärinen (1999)"
    reports_near_returns: ClassVar[bool] = True
    has_no_order: ClassVar[bool] = True

    sources: Annotated[Literal["all"] | Annotated[int, Field(ge=2)], number_or_word] = Field(
        default="all",
        description="how many of the first principal components are rotated into independent ones",
        json_schema_extra={"allowed": "all, or a number from 2"},
    )
    rest: Literal["perturb", "keep"] = Field(
        default="perturb",
        description="what happens to the principal components beyond the sources: the same as to the sources, or "
        "nothing, with a warning",
    )

    @model_validator(mode="after")
    def _keeping_needs_a_rest(self) -> Self:
        if self.rest == "keep" and self.sources == "all":
            raise ValueError("nothing is left to keep when all dimensions are sources")
        return self

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """Whiten by principal components, rotate by FastICA."""
        principal = standard_axes(centred)
        count = principal.count if self.sources == "all" else self.sources
        if count > principal.count:
            raise ParameterError(
                f"sources: {count} asked, but the data have {principal.count} dimensions", "ask for fewer"
            )
        scale = np.sqrt(principal.variance)
        whitening, colouring = principal.projection / scale, principal.loadings * scale[:, None]
        rotation, remark = np.eye(principal.count), ""
        if count > 1:
            found, remark = _rotation(sample(SAMPLE_ROWS) @ whitening[:, :count], stream)
            rotation[:count, :count] = found
        return Axes(
            projection=whitening @ rotation,
            loadings=rotation.T @ colouring,
            variance=np.ones(principal.count),
            weights=(principal.weights * scale) @ rotation,
            remark=remark,
            reserved=tuple(range(count, principal.count)) if self.rest == "keep" else (),
        )


def _rotation(whitened: Array, stream: Stream) -> tuple[Array, str]:
    """The orthogonal matrix that makes the columns least normal, and a remark if it was not found for sure."""
    own, _ = inverse_square_root(whitened.T @ whitened / whitened.shape[0])
    white = whitened if np.isnan(own).any() else whitened @ own  # the sample is not quite white where the whole is
    tries, width = [], white.shape[1]
    starts = RESTARTS if width <= MANY else 1
    for start in range(starts):
        first = stream.generator(start).standard_normal((width, width))
        rotation, converged = fast_ica(white, first, ITERATIONS if width <= MANY else MANY)
        if converged:
            return rotation, ""
        tries.append(rotation)
    best = max(tries, key=lambda rotation: _negentropy(white @ rotation))
    return best, f"FastICA did not converge in {starts} starts; the least normal rotation was used"


def _negentropy(sources: Array) -> float:
    """The sum over the columns of (E log cosh x - E log cosh of a normal)², as FastICA maximises it."""
    of_a_normal = 0.374567207491438
    return float(np.square(np.log(np.cosh(sources)).mean(axis=0) - of_a_normal).sum())


COV4_ROWS = 100_000
"""Rows the fourth moments are taken from: all of them in most files, and more would not turn the axes visibly."""

MCD_ROWS = 2_000
"""Rows the robust scatter is searched on: the search takes many passes, and it looks for half of the rows only."""

FLAT = 1e-10
"""A direction in which the robust scatter is less than this share of the covariance holds half of the records alike."""


class InvariantCoordinates(Decomposition):
    """Components that do not depend on the units, or any linear combination, of the columns they come from.

    Two scatter matrices S1 and S2 are compared: in the new coordinates S1 is the identity and S2 is diagonal. With
    `cov_cov4` these are the covariance and the covariance weighted by each record's distance from the centre (fourth
    moments), with `mcd_cov` a robust scatter of the densest half of the records and the covariance. Outlying records
    stand out in the first components or the last ones instead of bending all of them. One of the two is always the
    covariance of all records, so that the components are exactly uncorrelated; the other may come from a sample.
    Signs are chosen so that the components are skewed to the right.
    """

    reference: ClassVar[str] = "Tyler, Critchley, Dümbgen and Oja (2009); Rousseeuw and Van Driessen (1999)"

    scatter: Literal["cov_cov4", "mcd_cov"] = Field(
        default="cov_cov4",
        description="the two scatter matrices: the covariance and that of fourth moments, or a robust one and the "
        "covariance",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """Whiten by principal components, then turn to the axes of the other scatter matrix."""
        principal = standard_axes(centred)
        scale = np.sqrt(principal.variance)
        whitening, colouring = principal.projection / scale, principal.loadings * scale[:, None]
        if self.scatter == "cov_cov4":
            white = sample(COV4_ROWS) @ whitening
            _, turn = sorted_eigen(_fourth_moments(white))
            spread = np.ones(principal.count)
        else:
            white = sample(MCD_ROWS) @ whitening
            robust, turn = sorted_eigen(_robust_scatter(white, stream))
            # Smallest first: where the dense half is narrow, the covariance owes most to the records outside of it.
            robust, turn = robust[::-1], turn[:, ::-1]
            if robust[0] <= FLAT:
                raise DataError(
                    "scatter: half of the records lie in a plane, so that their own scatter is flat",
                    "use scatter='cov_cov4'",
                )
            spread = 1 / np.sqrt(robust)
        turn = turn * _skewed_to_the_right(white @ turn)
        return Axes(
            projection=(whitening @ turn) * spread,
            loadings=(turn.T @ colouring) / spread[:, None],
            variance=np.square(spread),
            weights=(principal.weights * scale) @ turn,
        )


def _fourth_moments(white: Array) -> Array:
    """Cov4 of white data: the mean of |y|² y y' over d + 2, which is the identity for normal data."""
    distance = np.square(white).sum(axis=1)
    scatter: Array = (white * distance[:, None]).T @ white / (white.shape[0] * (white.shape[1] + 2))
    return (scatter + scatter.T) / 2


def _robust_scatter(white: Array, stream: Stream) -> Array:
    """The minimum covariance determinant of white data, reweighted."""
    if white.shape[1] == 1 or white.shape[0] <= white.shape[1] + 1:
        return np.eye(white.shape[1])  # one coordinate has no axes to choose; so few records have no dense half
    found = dense_half(white, stream.child("mcd"))
    return np.zeros((white.shape[1],) * 2) if found is None else (found.covariance_ + found.covariance_.T) / 2


def dense_half(white: Array, stream: Stream) -> Any:
    """The minimum covariance determinant of white data, as scikit-learn fits it; None if half of the rows are one."""
    from sklearn.covariance import MinCovDet

    seed = int(stream.generator().integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dense half that is flat shows in its axes and distances
        try:
            return MinCovDet(random_state=seed).fit(white)
        except ValueError:
            return None


def _skewed_to_the_right(scores: Array) -> Array:
    """1 or -1 for each component, so that its third moment is not negative."""
    return np.where((scores**3).sum(axis=0) < 0, -1.0, 1.0)
