"""Exact moments: the perturbed scores get back the means, variances and zero correlations they had.

What they share with the untouched components (and the public columns) is taken out, and the rest is brought to the
covariance it must have: by the linear map that moves the scores least, or one score after the other (Gram-Schmidt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from microveil.core.arrays import Array
from microveil.core.fewest_records import Limits, within
from microveil.core.linalg import (
    inverse_square_root,
    nearest_rotation,
    regression_slopes,
    square_root,
    triangular_root,
)
from microveil.core.moments import Moments, is_wide, moments
from microveil.core.parameters import Step
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import segments
from microveil.restore.marginals import Marginal, mapped

Root = Literal["symmetric", "triangular"]

ROUNDS, ROUNDS_OF_MANY, MANY_ROWS = 3, 1, 50_000
"""Rounds of calibrating and mapping before the exchanges: they do most of the work, column by column. From so many rows
on, exchanges are fast, and few of them are needed: rounds help from a random order only, and the first one most."""


class ExactMoments(Step):
    """Keep means and covariances exactly, not only on average."""

    exact: bool | Literal["rounded"] = Field(
        default=True,
        description="keep means and covariances to round-off, or rounded to a grid on which one record more or "
        "less does not show; given permutations are applied as they are unless this is asked for",
        json_schema_extra={"allowed": "true, false or rounded"},
    )
    root: Root = Field(
        default="symmetric",
        description="how exact moments are restored: symmetric moves the components least, triangular "
        "orthogonalises them one after the other (Gram-Schmidt)",
    )

    @model_validator(mode="after")
    def _root_needs_exact(self) -> Self:
        if not self.exact and self.root != type(self).model_fields["root"].default:
            raise ValueError("root goes with exact=True or 'rounded' only")
        return self


@dataclass(frozen=True, repr=False)
class Correction:
    """`new scores = constant + [public, scores] @ matrix`, and how well it is determined."""

    constant: Array
    matrix: Array
    condition: float


def correction(
    now: Moments,
    target: Moments,
    public: int,
    perturbed: list[int],
    root: Root = "symmetric",
    loadings: Array | None = None,
) -> Correction:
    """The map that gives the perturbed scores the moments they had.

    Both summaries are of the `public` first columns followed by the scores: as they are `now`, and as they were.
    `perturbed` numbers the scores that change. What the perturbed scores share with the others is replaced by what they
    shared before (nearly nothing), and the rest is stretched to the covariance it had. With the `loadings` of the
    perturbed scores (scores x columns) a triangular root is that of the columns. An infinite condition number means
    that the perturbed scores are collinear.
    """
    width = now.mean.size
    moved = np.array([public + j for j in perturbed], dtype=np.intp)
    fixed = np.setdiff1d(np.arange(width), moved)
    slopes, left = _residual(now.covariance, fixed, moved)
    old_slopes, old_left = _residual(target.covariance, fixed, moved)
    scale = np.sqrt(np.diagonal(target.covariance)[moved])
    units = np.outer(scale, scale)
    basis = None if loadings is None else loadings * scale[:, None]
    between, condition = _map_between(left / units, old_left / units, root, basis)
    stretch = between / scale[:, None] * scale

    new = moved - public
    matrix = np.zeros((width, width - public))
    matrix[public:, :] = np.eye(width - public)
    matrix[:, new] = 0.0
    matrix[np.ix_(moved, new)] = stretch
    matrix[np.ix_(fixed, new)] = old_slopes - slopes @ stretch
    constant = np.zeros(width - public)
    constant[new] = target.mean[moved] - now.mean @ matrix[:, new]
    return Correction(constant, matrix, condition)


def _map_between(now: Array, then: Array, root: Root, basis: Array | None) -> tuple[Array, float]:
    """T with T' now T = then, and the condition number of `now`.

    With any roots N and M of the two, N^-1 Q M is such a map for every rotation Q. With symmetric roots and the Q that
    makes it symmetric too, it is the one that moves the scores least; with triangular roots and no Q, Gram-Schmidt.
    With a `basis` B of columns (scores x columns, of full rank) the roots are those of the covariances of columns, and
    the map of scores is B T B^-1.
    """
    shrink, condition = inverse_square_root(now)
    if not np.isfinite(condition):
        return shrink, condition
    if root == "triangular" and basis is not None:
        in_columns = [triangular_root(basis.T @ matrix @ basis) for matrix in (now, then)]
        return np.asarray(basis @ np.linalg.solve(*in_columns) @ np.linalg.inv(basis), dtype=np.float64), condition
    if root == "triangular":
        return np.asarray(np.linalg.solve(triangular_root(now), triangular_root(then)), dtype=np.float64), condition
    goal = square_root(then)
    return shrink @ nearest_rotation(square_root(now) @ goal) @ goal, condition


def _residual(covariance: Array, fixed: NDArray[np.intp], moved: NDArray[np.intp]) -> tuple[Array, Array]:
    """Slopes of the moved columns on the fixed ones, and the covariance they leave."""
    cross = covariance[np.ix_(fixed, moved)]
    slopes = regression_slopes(covariance[np.ix_(fixed, fixed)], cross)
    left = covariance[np.ix_(moved, moved)] - cross.T @ slopes
    return slopes, (left + left.T) / 2


def calibrate(columns: Sequence[Array], original: Microdata, stay: Sequence[Array] | None = None) -> bool:
    """Give the columns the moments of the original by a linear map, in place; False if they have become collinear.

    The columns that `stay` are the public ones as they are released, where that is not as they were. What is constant
    in one of the two has nothing to do with the others, and stays, too.
    """
    public, weights, count = original.public, original.weights, original.count
    both = Matrix(columns), original.confidential
    varying = [j for j in range(len(columns)) if all(matrix.varies(j) for matrix in both)]
    if is_wide(count, len(columns)) or not varying:
        return False  # more columns than dimensions are collinear
    now = Matrix([*(original.regressors.columns if stay is None else stay), *columns])
    target = moments(original.pieces, count, weights=weights)
    fix = correction(moments(now.piece, count, weights=weights), target, public, varying)
    if not np.isfinite(fix.condition):
        return False
    for piece in (piece for pieces in segments(count, len(now.columns)) for piece in pieces):
        moved = fix.matrix.T @ now.piece(piece)
        for column, values, constant in zip(columns, moved, fix.constant, strict=True):
            column[piece] = values + constant
    return True


def calibrated(
    columns: list[Array],
    marginals: Sequence[Marginal],
    original: Microdata,
    limits: Sequence[Limits | None],
    stay: Sequence[Array] | None = None,
    *,
    rounds: int = ROUNDS,
) -> list[Array]:
    """The values of the marginals in the order of the columns, in their place, brought near the moments column by
    column.

    Args:
        columns: give the order, and are used up.
        marginals: the values, column by column.
        original: has the moments.
        limits: how far out the values may be that count, column by column.
        stay: as for `calibrate`.
        rounds: how often they are brought nearer.
    """
    own = original.confidential.columns
    original = original.with_confidential([within(column, limit) for column, limit in zip(own, limits, strict=True)])
    mapped(columns, marginals)
    for _ in range(rounds if columns else 0):
        if not calibrate(columns, original, stay):
            break
        mapped(columns, marginals)
    return columns
