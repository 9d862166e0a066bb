"""Calviño, Aldeguer and Domingo-Ferrer (2017): a number of the text, and the curves of Fig. 3, which has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.results import Release
from microveil.studies.published.base import Asked, Entry, Found, Place, Printed, Tolerance
from microveil.studies.published.runs import measured, read_off, releases
from microveil.studies.published.sources import TARRAGONA, tarragona

PAPER = "Calviño, Aldeguer and Domingo-Ferrer (2017)"
SHARED = "variance of the factors, %"


def _shared(release: Release) -> dict[Place, float]:
    return {("Tarragona", SHARED): 100 * release.components.altered_variance}


FACTORS = Entry(
    id="calvino-factor-variance",
    title="share of the variance of Tarragona that its factors represent",
    paper=PAPER,
    place="§III.A",
    needs=TARRAGONA,
    printed=[Printed("Tarragona", SHARED, 89, Tolerance("printed in whole per cent", 0.5))],
    run=lambda asked: read_off(releases(tarragona(), "factor", asked, rest="keep"), _shared),
    least_repeats=0,
    notes=("with as many factors as columns it depends on how loadings are found: from 85 to 94 % elsewhere",),
)

CORRELATIONS = (0.05, 0.2, 0.5, 0.8, 0.95)
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "FA": ("factor", {"rest": "keep", "exact": False}),
    "PCA": ("pca", {"exact": False}),
    "M-AGG": ("microaggregate_noise", {"group_size": 3}),
}
RECORDS = 500
SAYS = Tolerance("the text says so (1), and ours show it (1) or not (0)")
CLAIMS = (
    "FA is better the larger the correlation",
    "FA is better than M-AGG above 0.5",
    "M-AGG is less affected than FA",
    "PCA is less affected than FA",
    "PCA and FA are similar above 0.5",
)


def _pair(correlation: float) -> Array:
    """Two normal columns with exactly this correlation."""
    drawn = np.random.default_rng(1).standard_normal((RECORDS, 2))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    other: Array = correlation * basis[:, 0] + np.sqrt(1 - correlation**2) * basis[:, 1]
    return np.column_stack([basis[:, 0], other])


def _run_3(asked: Asked) -> Found:
    values: dict[Place, Sequence[float]] = {}
    for number, correlation in enumerate(CORRELATIONS):
        part = replace(asked, progress=partial(_share, asked, number))
        found = measured(_pair(correlation), METHODS, {"summary": "summary"}, part)
        values |= {(_row(correlation), method): of for (method, _), of in found.values.items()}
    curves = {
        method: np.array([values[_row(correlation), method] for correlation in CORRELATIONS]) for method in METHODS
    }
    return Found({**values, **{("the text", claim): [float(holds)] for claim, holds in _claims(curves).items()}})


def _share(asked: Asked, number: int, step: str, share: float) -> None:
    asked.progress(step, (number + share) / len(CORRELATIONS))


def _row(correlation: float) -> str:
    return f"correlation {correlation:g}"


def _claims(curves: Mapping[str, Array]) -> dict[str, bool]:
    """Does what the text says of the curves hold? They have a row for each correlation, a column for each release."""
    fa, pca, groups = (curves[method].mean(axis=1) for method in METHODS)
    low, high = ({method: np.percentile(curve, end, axis=1) for method, curve in curves.items()} for end in (2.5, 97.5))
    above = np.array(CORRELATIONS) > 0.5
    overlap = np.maximum(low["FA"], low["PCA"]) <= np.minimum(high["FA"], high["PCA"])
    found = (
        bool((np.diff(fa) < 0).all()),
        bool((fa < groups)[above].all()),
        bool(np.ptp(groups) < np.ptp(fa) / 2),
        bool(np.ptp(pca) < np.ptp(fa) / 2),
        bool(overlap[above].all()),
    )
    return dict(zip(CLAIMS, found, strict=True))


FIGURE_3 = Entry(
    id="calvino-factor-fig3",
    title="summary of factor analysis, PCA and microaggregation plus noise by the correlation of two columns",
    paper=PAPER,
    place="Fig. 3",
    needs="nothing: the columns are simulated",
    printed=[
        *(
            Printed(_row(correlation), method, None, Tolerance("the figure has no numbers"))
            for correlation in CORRELATIONS
            for method in METHODS
        ),
        *(Printed("the text", claim, 1, SAYS) for claim in CLAIMS),
    ],
    run=_run_3,
    least_repeats=2,
    notes=(
        "the paper does not say how many records, which group size and which degree of propensity: 500, 3 and 2 here",
        "less affected: the mean moves less than half as much; similar: the 95 % intervals of releases overlap",
        "by its mean PCA is better than FA at every correlation; only the intervals say that they are similar",
        "Figures 2 and 4 to 6 have no numbers either, and are not made again",
    ),
)
