"""Which analyses a release is good for: each by the figure that would tell if it were broken, or said to be unmeasured.

An analysis is advised only where a figure of this very release stands for it. Of several figures the worst counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from microveil.report.material import Material, roles
from microveil.report.verdict import digits

AS_BEFORE, NEARLY, BROKEN, UNKNOWN = "as on the original", "nearly", "not from this file", "not measured"


@dataclass(frozen=True)
class Analysis:
    """A use of a file: where its figures come from, and from which figure on it is off, or broken."""

    use: str
    figure: str
    limits: tuple[float, float]
    kept: str = ""
    """The statistic of `release.kept` that stands for it."""

    measure: str = ""
    """The measure of an assessment that does."""

    seen: Callable[[Material], Iterable[float | None]] | None = None
    """What the pictures of the columns show of it, all records counting the same."""


def _of_columns(kind: str) -> Callable[[Material], Iterable[float | None]]:
    return lambda material: [] if material.view is None else [row[kind] for row in material.view.losses]


def _of_correlations(material: Material) -> list[float]:
    return [] if material.view is None else [abs(row["change"]) for row in material.view.correlation_changes]


ANALYSES = (
    Analysis("means and totals", "change in standard deviations", (0.05, 0.2), "mean", seen=_of_columns("mean")),
    Analysis(
        "distributions, quantiles, shares above a threshold",
        "distance of two distributions, 0 to 1",
        (0.05, 0.15),
        "distribution",
        "ks",
        _of_columns("distribution"),
    ),
    Analysis(
        "correlations, linear regressions, principal components",
        "largest change of a correlation",
        (0.1, 0.25),
        "covariance",
        "correlation_difference",
        _of_correlations,
    ),
    Analysis("rank correlations", "largest change", (0.1, 0.25), "rank correlation", "rank_correlation_difference"),
    Analysis(
        "means of groups that labels make", "change in standard deviations", (0.1, 0.25), "group means", "group_means"
    ),
    Analysis(
        "tables of two columns of labels", "share of records off", (0.05, 0.15), "two-way tables", "two_way_tables"
    ),
    Analysis(
        "regressions on labels", "mean change of a coefficient in standard errors", (1.2, 2.0), "", "label_regressions"
    ),
    Analysis(
        "interactions, trees, models of any shape",
        "how often boosted trees tell the files apart, from 0.5 on",
        (0.6, 0.75),
        "",
        "classifier_auc",
    ),
)

OF_LABELS = ("group_means", "two_way_tables", "label_regressions")


def analyses(material: Material) -> list[dict[str, Any]]:
    """Every analysis with its figure and a verdict; those of labels only where there are labels."""
    has_labels = material.labels is not None and bool(material.labels.of_labels.names)
    return [_line(one, material) for one in ANALYSES if has_labels or one.measure not in OF_LABELS]


def _line(analysis: Analysis, material: Material) -> dict[str, Any]:
    measured, seen = _figures(analysis, material)
    worst = max([*measured, *seen], default=None)
    verdict = UNKNOWN if worst is None else (AS_BEFORE, NEARLY, BROKEN)[sum(worst > end for end in analysis.limits)]
    said = _by_rows(measured, seen) if analysis.seen is _of_correlations else ""
    return {"use": analysis.use, "figure": worst, "of": analysis.figure + said, "verdict": verdict}


def _by_rows(measured: list[float], seen: list[float]) -> str:
    """Why the figure is not that of the measure: of pairs of columns with missing cells there are two."""
    if not measured or max(seen, default=0.0) < max(0.001, 1.05 * max(measured)):
        return ""
    return f" over the rows that have both cells; {digits(max(measured))} with means and spreads of all cells"


def _figures(analysis: Analysis, material: Material) -> tuple[list[float], list[float]]:
    """Those that were measured, and those that the pictures show."""
    release, found = material.release, material.assessment
    figures = [release.kept[analysis.kept]] if analysis.kept in release.kept else []
    if found is not None and analysis.measure in found:
        figures.append(found[analysis.measure].value)
    # With weights, it is the weighted figures that were kept; those of the pictures are without.
    seen = [] if analysis.seen is None or (figures and release.settings["weight"]) else analysis.seen(material)
    found_there = [figure for figure in seen if figure is not None]
    numbers = ([float("inf") if one != one else float(one) for one in part] for part in (figures, found_there))
    return next(numbers), next(numbers)


def relations_not_kept(material: Material, uses: Iterable[Mapping[str, Any]]) -> list[str]:
    """Columns that came through as they were while the others were protected without them; and what is off by far.

    A statistic whose analysis is among the `uses`, and broken, is not named again.
    """
    release = material.release
    alone = roles(release).get("released as they are", [])
    protected = len(release.dose) + len(release.labels)
    said = []
    if alone and protected:
        came = "it was" if len(alone) == 1 else "they were"
        said.append(
            f"relations of {', '.join(alone)} with the protected columns: {came} released as in the original, and the "
            "others were protected without."
        )
    broken = {use["use"] for use in uses if use["verdict"] == BROKEN}
    named = {one.kept for one in ANALYSES if one.use in broken}
    more = [f"{name}: off by {digits(error)}" for name, error in release.not_kept.items() if name not in named]
    return [*said, "; ".join(more) + "."] if more else said
