"""Calviño, Aldeguer and Domingo-Ferrer (2017), general protection: a number of the text, and Figs. 2 to 4 without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.papers.base import Found, Place, Printed, PublishedItem, RunOptions, Tolerance
from microveil.papers.runs import (
    SAYS,
    SHOWN,
    TEXT,
    Methods,
    measured,
    part_of,
    read_off,
    releases,
    said,
)
from microveil.papers.sources import TARRAGONA, tarragona
from microveil.release.release import Release

PAPER = "Calviño, Aldeguer and Domingo-Ferrer (2017)"
SHARED = "variance of the factors, %"


def _shared(release: Release) -> dict[Place, float]:
    return {("Tarragona", SHARED): 100 * release.components.altered_variance}


FACTORS = PublishedItem(
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
CLAIMS = (
    "FA is better the larger the correlation",
    "FA is better than M-AGG above 0.5",
    "M-AGG is less affected than FA",
    "PCA is less affected than FA",
    "PCA and FA are similar above 0.5",
)


def pair(correlation: float) -> Array:
    """Two normal columns with exactly this correlation."""
    drawn = np.random.default_rng(1).standard_normal((RECORDS, 2))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    other: Array = correlation * basis[:, 0] + np.sqrt(1 - correlation**2) * basis[:, 1]
    return np.column_stack([basis[:, 0], other])


def _curves(methods: Methods, asked: RunOptions) -> tuple[dict[Place, Sequence[float]], dict[str, Array]]:
    """The summary of every method by the correlation: as figures, and as a row for each with a column per release."""
    values: dict[Place, Sequence[float]] = {}
    for number, correlation in enumerate(CORRELATIONS):
        part = part_of(asked, number, len(CORRELATIONS))
        found = measured(pair(correlation), methods, {"summary": "summary"}, part)
        values |= {(row_of(correlation), method): of for (method, _), of in found.values.items()}
    return values, {
        method: np.array([values[row_of(correlation), method] for correlation in CORRELATIONS]) for method in methods
    }


def _run_3(asked: RunOptions) -> Found:
    values, curves = _curves(METHODS, asked)
    return Found({**values, **said(_claims(curves))})


def row_of(correlation: float) -> str:
    """What the row of a correlation is called."""
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


FIGURE_3 = PublishedItem(
    id="calvino-factor-fig3",
    title="summary of factor analysis, PCA and microaggregation plus noise by the correlation of two columns",
    paper=PAPER,
    place="Fig. 3",
    needs="nothing: the columns are simulated",
    printed=[
        *(Printed(row_of(correlation), method, None, SHOWN) for correlation in CORRELATIONS for method in METHODS),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS),
    ],
    run=_run_3,
    least_repeats=2,
    notes=(
        "the paper does not say how many records, which group size and which degree of propensity: 500, 3 and 2 here",
        "less affected: the mean moves less than half as much; similar: the 95 % intervals of releases overlap",
        "by its mean PCA is better than FA at every correlation; only the intervals say that they are similar",
    ),
)

# --- Fig. 2: the first, the second or both factors of two columns

FIRST, SECOND, BOTH = "first factor", "second factor", "both factors"
# Only maximum likelihood finds a second factor in two columns; the others find that one explains all they share.
TWO: dict[str, Any] = {"rest": "keep", "exact": False, "extraction": "ml"}
CHOSEN: Methods = {
    FIRST: ("factor", {**TWO, "select": [0]}),
    SECOND: ("factor", {**TWO, "select": [1]}),
    BOTH: ("factor", {**TWO, "select": [0, 1]}),
}
CLAIMS_2 = (
    "both are better the larger the correlation",
    "the first is better the larger the correlation",
    "the second alone is worse than the first and than both",
    "without correlation there is nothing to alter",
    "intervals are narrower with both than with the first",
)


def _claims_2(curves: Mapping[str, Array], nothing: bool) -> dict[str, bool]:
    first, second, both = (curves[which].mean(axis=1) for which in (FIRST, SECOND, BOTH))
    width = {which: np.ptp(np.percentile(curve, (2.5, 97.5), axis=1), axis=0) for which, curve in curves.items()}
    found = (
        bool((np.diff(both) < 0).all()),
        bool((np.diff(first) < 0).all()),
        bool((second > np.maximum(first, both)).all()),
        nothing,
        bool(width[BOTH].mean() < width[FIRST].mean()),
    )
    return dict(zip(CLAIMS_2, found, strict=True))


def _nothing_to_alter(asked: RunOptions) -> bool:
    """Are two uncorrelated columns refused, because they have no common factor?"""
    try:
        next(releases(pair(0.0), "factor", asked, **TWO))
    except DataError:
        return True
    return False


def _run_2(asked: RunOptions) -> Found:
    values, curves = _curves(CHOSEN, asked)
    return Found({**values, **said(_claims_2(curves, _nothing_to_alter(asked)))})


FIGURE_2 = PublishedItem(
    id="calvino-factor-fig2",
    title="summary of factor analysis by the correlation of two columns, one or both factors swapped",
    paper=PAPER,
    place="Fig. 2",
    needs="nothing: the columns are simulated",
    printed=[
        *(Printed(row_of(correlation), which, None, SHOWN) for correlation in CORRELATIONS for which in CHOSEN),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS_2),
    ],
    run=_run_2,
    least_repeats=2,
    notes=(
        "500 records; factors by maximum likelihood, which finds two in two columns where principal axes find one",
        "narrower: the 95 % intervals of releases, on the average of the correlations",
    ),
)

# --- Fig. 4: the best of many configurations on Tarragona

FAMILIES: dict[str, Methods] = {
    "PCA": {f"PCA {count}": ("pca", {"components": count, "exact": False}) for count in range(1, 14)},
    "FA": {f"FA {count}": ("factor", {"select": count, "rest": "keep", "exact": False}) for count in range(1, 13)},
    "FA by regression": {
        f"FA by regression {count}": (
            "factor",
            {"select": count, "rest": "keep", "exact": False, "scores": "regression"},
        )
        for count in range(1, 13)
    },
    "M-AGG": {
        f"M-AGG {size}": ("microaggregate_noise", {"group_size": size}) for size in (3, 5, 7, 10, 25, 50, 75, 150, 300)
    },
}
PERCENTILES = {"2.5 %": 2.5, "median": 50.0, "97.5 %": 97.5}
CLAIMS_4 = (
    "PCA is better than FA",
    "FA is better than M-AGG",
    "the intervals of PCA and FA do not overlap",
    "the intervals of FA and M-AGG do not overlap",
)


def _run_4(asked: RunOptions) -> Found:
    methods = {label: method for family in FAMILIES.values() for label, method in family.items()}
    found = measured(tarragona(), methods, {"summary": "summary"}, asked)
    best = {
        family: min(
            (np.percentile(found.values[label, "summary"], list(PERCENTILES.values())) for label in labels),
            key=lambda ends: float(ends[-1]),
        )
        for family, labels in FAMILIES.items()
    }
    values = {
        (family, word): [float(end)] for family in best for word, end in zip(PERCENTILES, best[family], strict=True)
    }
    return Found({**values, **said(_claims_4(best))}, found.absent)


def _claims_4(best: Mapping[str, Array]) -> dict[str, bool]:
    """What the text says of the best configurations, of which it has 2.5th percentile, median and 97.5th."""
    low, median, high = (dict(zip(best, ends, strict=True)) for ends in zip(*best.values(), strict=True))
    found = (
        bool(median["PCA"] < median["FA"]),
        bool(median["FA"] < median["M-AGG"]),
        bool(high["PCA"] < low["FA"]),
        bool(high["FA"] < low["M-AGG"]),
    )
    return dict(zip(CLAIMS_4, found, strict=True))


FIGURE_4 = PublishedItem(
    id="calvino-factor-fig4",
    title="summary of the best configurations of factor analysis, PCA and microaggregation plus noise",
    paper=PAPER,
    place="Fig. 4",
    needs=TARRAGONA,
    printed=[
        *(Printed(family, word, None, SHOWN) for family in FAMILIES for word in PERCENTILES),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS_4),
    ],
    run=_run_4,
    least_repeats=2,
    notes=(
        "the best is the one with the smallest 97.5th percentile of releases, as in the paper; better: by its median",
        "of PCA and FA the first 1, 2, ... components, of microaggregation nine group sizes; the paper tries all 8,191 "
        "subsets, 100 times each",
        "the claims are held against FA with exact scores; scores by regression are shown beside it",
    ),
)
