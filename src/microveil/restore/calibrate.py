"""Exact moments: the perturbed scores get back the means, variances and zero correlations they had.

Of all ways to do it, this one moves the scores least: what they share with the untouched components (and the
public columns) is taken out, and the symmetric square root brings the rest to the variances it must have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from microveil.core.linalg import inverse_square_root, regression_slopes
from microveil.core.moments import Array, Moments
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


@dataclass(frozen=True)
class Correction:
    """`new scores = constant + [public, scores] @ matrix`, and how well it is determined."""

    constant: Array
    matrix: Array
    condition: float


def correction(summary: Moments, public: int, perturbed: list[int], variance: Array) -> Correction:
    """The map that makes the perturbed scores exact.

    `summary` has the moments of the public columns followed by the scores as they are now; `variance` the
    variance each score had. A condition number of infinity means that the perturbed scores are collinear.
    """
    width = summary.mean.size
    moved = [public + j for j in perturbed]
    fixed = [j for j in range(width) if j not in set(moved)]
    covariance = summary.covariance
    slopes = regression_slopes(covariance[np.ix_(fixed, fixed)], covariance[np.ix_(fixed, moved)])
    left = covariance[np.ix_(moved, moved)] - covariance[np.ix_(moved, fixed)] @ slopes
    scale = np.sqrt(variance[perturbed])
    root, condition = inverse_square_root((left + left.T) / 2 / np.outer(scale, scale))
    stretch = root / scale[:, None] * scale

    matrix = np.zeros((width, width - public))
    matrix[public:, :] = np.eye(width - public)
    matrix[:, perturbed] = 0.0
    matrix[np.ix_(moved, perturbed)] = stretch
    matrix[np.ix_(fixed, perturbed)] = -slopes @ stretch
    constant = np.zeros(width - public)
    constant[perturbed] = -summary.mean @ matrix[:, perturbed]
    return Correction(constant, matrix, condition)
