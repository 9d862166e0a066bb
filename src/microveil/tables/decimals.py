"""Decimals in the place of unknown cells: fitted values plus new residuals (Langsrud 2019, §7).

Plain matrices here, cells × variables; `fill.py` knows tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.factor import generalised_qr, without_round_off
from microveil.tables.reduced import Reduced

Draw = Callable[[int], Array]
"""Standard normal deviates of the attempt of this number: a row for each unknown cell, a column for each variable."""

ATTEMPTS = 200
"""Draws that are tried for a variance that not every draw allows: of those in the paper's example, 83 % do."""


@dataclass(frozen=True)
class ResidualSize:
    """How large the new residuals are to be; `fill` says what its options mean. Refuses what does not go together."""

    modulo: float | None = None
    residual_scale: float = 1.0
    residual_sd: float | None = None
    keep_variance: bool = False

    def __post_init__(self) -> None:
        if self.modulo is not None and not (np.isfinite(self.modulo) and self.modulo > 0):
            raise ParameterError("modulo must be above 0", "10 takes the last digit of a count to be the secret")
        if not (np.isfinite(self.residual_scale) and self.residual_scale >= 0):
            raise ParameterError("residual_scale must not be negative", "1 keeps the variance, 0.1 is a tenth of it")
        if self.residual_sd is not None and not (np.isfinite(self.residual_sd) and self.residual_sd > 0):
            raise ParameterError("residual_sd must be above 0", "it is in the unit of the cells")
        chosen = (self.residual_scale != 1, self.residual_sd is not None, self.keep_variance)
        if sum(chosen) > 1:
            raise ParameterError(
                "residual_scale, residual_sd and keep_variance exclude each other", "choose one size of the residuals"
            )


def deducted(values: Array, modulo: float | None) -> Array:
    """What the modulo method takes to be no secret: all but the remainder."""
    return np.zeros_like(values) if modulo is None else modulo * np.floor(values / modulo)


def fitted_values(system: Reduced, values: Array, modulo: float | None = None) -> Array:
    """Ŷ of eq. 21, of what the modulo method leaves."""
    base = deducted(values, modulo)
    secret = values - base
    return secret - system.residuals(secret) + base


def synthetic(system: Reduced, values: Array, size: ResidualSize, draw: Draw) -> Array:
    """Y* = Ŷ + Ê*: new residuals with the covariance of the old ones, scaled as it is wanted."""
    check_freedom(system, fitted=size.residual_scale == 0)
    if size.residual_scale == 0:
        return fitted_values(system, values, size.modulo)
    base = deducted(values, size.modulo)
    secret = values - base
    old = without_round_off(system.residuals(secret), values)
    fit = secret - old + base
    if not size.keep_variance or size.modulo is None:
        new = _with_loadings_of(system, draw(0), old)
        return fit + new * _scale(system, new, size)
    deducted_part = system.residuals(base)
    goal = np.square(system.residuals(values)).sum(axis=0)
    for attempt in range(ATTEMPTS):
        new = _with_loadings_of(system, draw(attempt), old)
        scale = required_scale(new, deducted_part, goal)
        if scale is not None:
            return fit + new * scale
    raise DataError(
        "no draw gives the decimals the variance of the original values under this modulo",
        "choose another modulo, or do without keep_variance",
    )


def required_scale(new: Array, deducted_part: Array, goal: Array) -> Array | None:
    """C with |c Ê* + (I - P) d|² = the goal, for each variable; None where a draw allows none.

    A quadratic equation: the residuals of what was deducted, d, are not orthogonal to the new ones. Of its two
    solutions the larger one is taken, which moves the cells more.
    """
    squares = np.square(new).sum(axis=0)
    cross = (new * deducted_part).sum(axis=0)
    rest = np.square(deducted_part).sum(axis=0) - goal
    root = np.square(cross) - squares * rest
    if (root < 0).any():
        return None
    larger = -(cross + np.where(cross < 0, -1.0, 1.0) * np.sqrt(root))
    scale: Array = np.divide(larger, squares, out=np.zeros_like(squares), where=squares > 0)
    return scale


def check_freedom(system: Reduced, fitted: bool = False) -> None:
    """Refuse systems in which nothing can move, or only to and fro; fitted values do not mind the latter."""
    if system.freedom == 0:
        raise DataError(
            "every suppressed cell follows from the published ones: the suppression has failed",
            "suppress more cells; tables.audit names those that can be derived",
        )
    if system.freedom == 1 and not fitted:
        raise DataError(
            "the suppressed cells can move in one direction only, so that decimals of the same variance are the "
            "original values or their mirror image",
            "suppress another cell, or take tables.fitted",
        )


def _with_loadings_of(system: Reduced, drawn: Array, old: Array) -> Array:
    """Drawn residuals with the covariance of the old ones: scores of the one, loadings of the other (eq. 4)."""
    loadings = generalised_qr(old).loadings
    scores = generalised_qr(system.residuals(drawn)).scores[:, : loadings.shape[0]]
    return scores @ loadings


def _scale(system: Reduced, new: Array, size: ResidualSize) -> float | Array:
    """What the residuals are multiplied by; a standard deviation counts the directions in which cells can move."""
    if size.residual_sd is None:
        return size.residual_scale
    length = np.sqrt(np.square(new).sum(axis=0) / system.freedom)
    scale: Array = np.divide(size.residual_sd, length, out=np.zeros_like(length), where=length > 0)
    return scale
