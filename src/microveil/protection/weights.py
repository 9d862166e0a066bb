"""Survey weights that are protected themselves, and calibrated to what they are for.

Weights that fall with size reveal the size: where a weight is in clear, whatever keeps its relation to it stays
near its own. So the weight goes with the other columns, as one of them, and is then moved as little as it takes
(Deville and Särndal 1992: least squares within bounds) until weighted counts, means and variances are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.fewest_records import FEWEST_RECORDS, limits_to_fit, within
from microveil.intake.roles import named
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.methods import Plan
from microveil.options import Protect
from microveil.release.release import Release
from microveil.rules.domain import step_of

ROUNDS = 100
SOLVED = 1e-9
"""Of the sum of the weights: how near the sums come."""


def without_weight(whole: Frame, options: Protect, plan: Plan) -> tuple[Protect, str | None]:
    """The options of a run in which the protected weight is a column like others, and its name."""
    if options.protected_weight is None:
        return options, None
    found = named(whole.names, "protected_weight", options.protected_weight)
    if len(found) != 1 or not whole.is_numeric(found[0]):
        raise ParameterError("protected_weight: takes one column of numbers", "name the one that holds the weights")
    name = found[0]
    if options.weight is not None:
        raise ParameterError(
            "protected_weight: does not go with weight", "a weight is in clear, or protected: give one"
        )
    if not plan.arranges:
        raise ParameterError(
            f"protected_weight: does not go with {plan.method}", "use veil, or weight, which is in clear"
        )
    if not (whole.numbers(name) > 0).all():
        raise DataError(f"protected_weight: column '{name}' has cells that are missing, zero or negative", "fill them")
    chosen = options.confidential
    if chosen is not None:
        chosen = [*named(whole.names, "confidential", chosen)]
        chosen = chosen if name in chosen else [*chosen, name]
    kinds = {name: "amount", **(options.kinds or {})}
    return options.model_copy(update={"confidential": chosen, "kinds": kinds}), name


def calibrated(release: Release, original: Frame, name: str, codes: Mapping[str, tuple[float, ...]]) -> Release:
    """The release with its weight `name` calibrated; `codes` by column are cells that are no values."""
    after = open_frame(release.data)
    weights, start = original.numbers(name), after.numbers(name)
    columns = [other for other in release.dose if other != name and other in after.names]
    before, now = ([_values(frame, other, codes) for other in columns] for frame in (original, after))
    sums, target, spreads = [np.ones(start.size)], [float(weights.sum())], []
    for old, new in zip(before, now, strict=True):
        limits = limits_to_fit(old[~np.isnan(old)]) if np.isfinite(old).sum() > FEWEST_RECORDS else (0.0, 0.0)
        if limits is not None and limits[0] == limits[1]:
            continue  # it would reveal a handful of records
        old, new = within(old, limits), within(new, limits)
        mean, spread = _moments(old, weights)
        if spread > 0:
            off = np.nan_to_num((new - mean) / spread)
            sums += [off, np.square(off) - ~np.isnan(new)]
            target += [0.0, 0.0]
            spreads.append((old, new, spread))
    for other in release.labels:
        if other in after.names:
            _add_levels(sums, target, (original, after), other, weights)
    matrix, limits = np.column_stack(sums), (float(weights.min()), float(weights.max()))
    found = _rounded(_solved(start, matrix, np.array(target), limits), weights, limits)
    data = after.rebuilt({name: found}, {name: None})
    pairs = [(_moments(old, weights), _moments(new, found), spread) for old, new, spread in spreads]
    mean = max((abs(a[0] - b[0]) / spread for a, b, spread in pairs), default=0.0)
    spread_error = max((abs(b[1] / spread - 1) for _, b, spread in pairs), default=0.0)
    kept = {**release.kept, "weighted mean": mean, "weighted spread": spread_error}
    moved = float(np.abs(found - start).sum() / start.sum())
    said = (
        f"column '{name}' is protected like the others and was calibrated to weighted counts, means and variances: "
        f"weights were moved by {100 * moved:.0f} % in sum"
    )
    return replace(release, data=data, kept=kept, warnings=[*release.warnings, said])


def _values(frame: Frame, name: str, codes: Mapping[str, tuple[float, ...]]) -> Array:
    values = frame.numbers(name)
    return np.where(np.isin(values, codes[name]), np.nan, values) if name in codes else values


def _moments(values: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean and standard deviation of the cells that are there."""
    there = ~np.isnan(values)
    mean = float(np.average(values[there], weights=weights[there]))
    return mean, float(np.sqrt(np.average(np.square(values[there] - mean), weights=weights[there])))


def _add_levels(sums: list[Array], target: list[float], frames: tuple[Frame, Frame], name: str, weights: Array) -> None:
    """Weighted counts of the levels of a column that enough records have in both tables (original, released)."""
    (old, values), (new, others) = ((frame.labels(name), frame.level_values(name)) for frame in frames)
    place = {value: number for number, value in enumerate(others)}
    common = [(number, place[value]) for number, value in enumerate(values) if value in place]
    enough = [(a, b) for a, b in common if min((old == a).sum(), (new == b).sum()) >= FEWEST_RECORDS]
    for a, b in enough[1:] if len(enough) == len(values) else enough:  # the last follows from the others
        sums.append((new == b).astype(np.float64))
        target.append(float(weights[old == a].sum()))


def _solved(start: Array, sums: Array, target: Array, limits: tuple[float, float]) -> Array:
    """Weights nearest to the `start` (chi-square distance), within the limits, whose `sums` (rows x sums) are right."""
    weights, free = start.clip(*limits), np.ones(start.size, dtype=bool)
    best, least = weights, np.inf
    for _ in range(ROUNDS):
        gap = target - sums.T @ weights
        off = float(np.abs(gap).max())
        if off < least:
            best, least = weights, off
        if off <= SOLVED * target[0] or free.sum() <= target.size:
            break
        own = sums[free]
        slopes = np.linalg.lstsq((own * start[free, None]).T @ own, gap, rcond=1e-10)[0]
        weights = (weights + np.where(free, start * (sums @ slopes), 0.0)).clip(*limits)
        free = (weights > limits[0]) & (weights < limits[1])
    return best


def _rounded(weights: Array, original: Array, limits: tuple[float, float]) -> Array:
    """With as many decimals as the weights had."""
    step = step_of(np.sort(original))
    return weights if step is None else (np.round(weights / step) * step).clip(*limits)
