"""Exact moments: the perturbed scores get back the means, variances and zero correlations they had.

Of all ways to do it, this one moves the scores least: what they share with the untouched components (and the
public columns) is taken out, and the symmetric square root brings the rest to the variances it must have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.linalg import inverse_square_root, regression_slopes, square_root
from microveil.core.moments import Moments
from microveil.core.parameters import Step


class ExactMoments(Step):
    """Keep means and covariances exactly, not only on average."""

    exact: Annotated[
        bool,
        Field(
            description="keep means and covariances to round-off; given permutations are applied as they are unless "
            "this is asked for"
        ),
    ] = True


@dataclass(frozen=True, repr=False)
class Correction:
    """`new scores = constant + [public, scores] @ matrix`, and how well it is determined."""

    constant: Array
    matrix: Array
    condition: float


def correction(now: Moments, target: Moments, public: int, perturbed: list[int]) -> Correction:
    """The map that gives the perturbed scores the moments they had.

    Both summaries are of the public columns followed by the scores: as they are `now`, and as they were. What the
    perturbed scores share with the others is replaced by what they shared before (nearly nothing), and the rest is
    stretched to the covariance it had. An infinite condition number means that the perturbed scores are collinear.
    """
    width = now.mean.size
    moved = np.array([public + j for j in perturbed], dtype=np.intp)
    fixed = np.setdiff1d(np.arange(width), moved)
    slopes, left = _residual(now.covariance, fixed, moved)
    old_slopes, old_left = _residual(target.covariance, fixed, moved)
    scale = np.sqrt(np.diagonal(target.covariance)[moved])
    units = np.outer(scale, scale)
    shrink, condition = inverse_square_root(left / units)
    stretch = (shrink @ square_root(old_left / units)) / scale[:, None] * scale

    new = moved - public
    matrix = np.zeros((width, width - public))
    matrix[public:, :] = np.eye(width - public)
    matrix[:, new] = 0.0
    matrix[np.ix_(moved, new)] = stretch
    matrix[np.ix_(fixed, new)] = old_slopes - slopes @ stretch
    constant = np.zeros(width - public)
    constant[new] = target.mean[moved] - now.mean @ matrix[:, new]
    return Correction(constant, matrix, condition)


def _residual(covariance: Array, fixed: NDArray[np.intp], moved: NDArray[np.intp]) -> tuple[Array, Array]:
    """Slopes of the moved columns on the fixed ones, and the covariance they leave."""
    cross = covariance[np.ix_(fixed, moved)]
    slopes = regression_slopes(covariance[np.ix_(fixed, fixed)], cross)
    left = covariance[np.ix_(moved, moved)] - cross.T @ slopes
    return slopes, (left + left.T) / 2
