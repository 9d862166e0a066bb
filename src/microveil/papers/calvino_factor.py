"""Calviño, Aldeguer and Domingo-Ferrer (2017), general protection: Figs. 2 to 4, which have no numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.runs import measured, part_of, releases
from microveil.papers.sources import tarragona
from microveil.studies.compare import Methods

RECORDS = 500
CORRELATIONS = (0.05, 0.2, 0.5, 0.8, 0.95)
SUMMARY = {"summary": "summary"}
FACTORS: dict[str, Any] = {"rest": "keep", "exact": False}


def pair(correlation: float) -> Array:
    """Two normal columns with exactly this correlation."""
    drawn = np.random.default_rng(1).standard_normal((RECORDS, 2))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    other: Array = correlation * basis[:, 0] + np.sqrt(1 - correlation**2) * basis[:, 1]
    return np.column_stack([basis[:, 0], other])


def row_of(correlation: float) -> str:
    """What the row of a correlation is called."""
    return f"correlation {correlation:g}"


def _curves(methods: Methods, options: RunOptions) -> tuple[dict[Place, Sequence[float]], dict[str, Array]]:
    """The summary of every method by the correlation: as figures, and as arrays (correlations x releases) by method."""
    values: dict[Place, Sequence[float]] = {}
    for number, correlation in enumerate(CORRELATIONS):
        part = part_of(options, number, len(CORRELATIONS))
        found = measured(part, data=pair(correlation), methods=methods, measures=SUMMARY)
        values |= {(row_of(correlation), method): of for (method, _), of in found.values.items()}
    return values, {
        method: np.array([values[row_of(correlation), method] for correlation in CORRELATIONS]) for method in methods
    }


# --- Fig. 2: the first, the second or both factors of two columns


def factor_choice(options: RunOptions, *, methods: Methods) -> Found:
    """Curves of the first, the second and both factors, in this order; the last method is tried without correlation."""
    values, curves = _curves(methods, options)
    name, parameters = list(methods.values())[-1]
    return Found(values, claims=claims_of_choice(curves, _nothing_to_alter(options, name, parameters)))


def claims_of_choice(curves: Mapping[str, Array], nothing: bool) -> list[bool]:
    """Does what the text says of the curves (first, second and both factors; correlations x releases) hold?"""
    first, second, both = (curve.mean(axis=1) for curve in curves.values())
    widths = [np.ptp(np.percentile(curve, (2.5, 97.5), axis=1), axis=0).mean() for curve in curves.values()]
    return [
        bool((np.diff(both) < 0).all()),
        bool((np.diff(first) < 0).all()),
        bool((second > np.maximum(first, both)).all()),
        nothing,
        bool(widths[2] < widths[0]),
    ]


def _nothing_to_alter(options: RunOptions, method: str, parameters: Mapping[str, Any]) -> bool:
    """Are two uncorrelated columns refused, because they have no common factor?"""
    try:
        next(releases(pair(0.0), method, options, **parameters))
    except DataError:
        return True
    return False


# --- Fig. 3: three methods by the correlation


def methods_by_correlation(options: RunOptions, *, methods: Methods) -> Found:
    """Curves of FA, PCA and M-AGG."""
    values, curves = _curves(methods, options)
    return Found(values, claims=claims_by_correlation(curves))


def claims_by_correlation(curves: Mapping[str, Array]) -> list[bool]:
    """Does what the text says of the curves (correlations x releases) hold?"""
    fa, pca, groups = (curves[method].mean(axis=1) for method in ("FA", "PCA", "M-AGG"))
    low, high = ({method: np.percentile(curve, end, axis=1) for method, curve in curves.items()} for end in (2.5, 97.5))
    above = np.array(CORRELATIONS) > 0.5
    overlap = np.maximum(low["FA"], low["PCA"]) <= np.minimum(high["FA"], high["PCA"])
    return [
        bool((np.diff(fa) < 0).all()),
        bool((fa < groups)[above].all()),
        bool(np.ptp(groups) < np.ptp(fa) / 2),
        bool(np.ptp(pca) < np.ptp(fa) / 2),
        bool(overlap[above].all()),
    ]


# --- Fig. 4: the best of many configurations on Tarragona

PERCENTILES = {"2.5 %": 2.5, "median": 50.0, "97.5 %": 97.5}


def best_configurations(options: RunOptions, *, families: Mapping[str, Mapping[str, Any]]) -> Found:
    """Of each family the configuration with the smallest 97.5th percentile of the summary.

    A family has a `method`, the parameter that is its `dose`, the `doses` to try, and other parameters.
    """
    methods = {label: entry for name, family in families.items() for label, entry in _family(name, **family).items()}
    found = measured(options, data=tarragona(), methods=methods, measures=SUMMARY)
    ends = list(PERCENTILES.values())
    best = {
        name: min(
            (np.percentile(found.values[label, "summary"], ends) for label in _family(name, **family)),
            key=lambda percentiles: float(percentiles[-1]),
        )
        for name, family in families.items()
    }
    values = {
        (family, word): [float(end)] for family in best for word, end in zip(PERCENTILES, best[family], strict=True)
    }
    return Found(values, found.absent, claims_of_best(best))


def _family(name: str, method: str, dose: str, doses: Sequence[int], **fixed: Any) -> Methods:
    """A method at several doses, by label."""
    return {f"{name} {value}": (method, {dose: value, **fixed}) for value in doses}


def claims_of_best(best: Mapping[str, Array]) -> list[bool]:
    """Does what the text says hold of the best configurations: 2.5th percentile, median and 97.5th of each family?"""
    low, median, high = (dict(zip(best, ends, strict=True)) for ends in zip(*best.values(), strict=True))
    return [
        bool(median["PCA"] < median["FA"]),
        bool(median["FA"] < median["M-AGG"]),
        bool(high["PCA"] < low["FA"]),
        bool(high["FA"] < low["M-AGG"]),
    ]
