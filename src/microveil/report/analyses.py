"""Which analyses a release is good for: each by the figure that would tell if it were broken, or said to be unmeasured.

An analysis is advised only where a figure of this very release stands for it. Of several figures the worst counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
    figures = _figures(analysis, material)
    worst = max(figures, default=None)
    verdict = UNKNOWN if worst is None else (AS_BEFORE, NEARLY, BROKEN)[sum(worst > end for end in analysis.limits)]
    return {"use": analysis.use, "figure": worst, "of": analysis.figure, "verdict": verdict}


def _figures(analysis: Analysis, material: Material) -> list[float]:
    release, found = material.release, material.assessment
    figures = [release.kept[analysis.kept]] if analysis.kept in release.kept else []
    if found is not None and analysis.measure in found:
        figures.append(found[analysis.measure].value)
    # With weights, it is the weighted figures that were kept; those of the pictures are without.
    if analysis.seen is not None and not (figures and release.settings["weight"]):
        figures += [figure for figure in analysis.seen(material) if figure is not None]
    return [float("inf") if figure != figure else float(figure) for figure in figures]


def relations_not_kept(material: Material) -> list[str]:
    """Columns that came through as they were while the others were protected without them; and what is off by far."""
    release = material.release
    alone = roles(release).get("released as they are", [])
    protected = len(release.dose) + len(release.labels)
    said = []
    if alone and protected:
        said.append(
            f"{', '.join(alone)}: released as in the original, and the others were protected without them, so "
            "relations of these columns with the protected ones are not kept."
        )
    if release.not_kept:
        said.append("; ".join(f"{name}: off by {digits(error)}" for name, error in release.not_kept.items()) + ".")
    return said
