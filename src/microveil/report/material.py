"""What a report is made of, and words that both versions share. Every part but the release may be absent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from microveil.assessment.assessment import Assessment
from microveil.core.table import Matrix
from microveil.core.version import __version__
from microveil.measures.base import MeasureInfo, plain
from microveil.measures.labels import LabelPair
from microveil.release.release import Audit, Release
from microveil.report import portrait
from microveil.report.portrait import Row

FORMAT = 1
"""Version of the JSON twin."""

NO_ORIGINAL = "the original is not at hand: a release that was stored or sent has left it behind"

KIND_MEANING = {
    "masked": "original values, exchanged between records or blurred",
    "hybrid": "values partly original, partly drawn from a model",
    "synthetic": "values drawn from a model",
}


class Compared(Protocol):
    """A study of several methods, as far as a report reads it; the summary of a measure has mean, low and high."""

    @property
    def figures(self) -> Mapping[str, Sequence[Mapping[str, float]]]:
        """What was measured on each release of each method."""

    @property
    def entries(self) -> Mapping[str, MeasureInfo]:
        """What is known of the measures."""

    @property
    def measures(self) -> list[str]:
        """The measures that were taken."""

    @property
    def unprotected(self) -> Mapping[str, float]:
        """The methods that leave a sensitive column nearly as it was."""

    def summary(self, label: str, measure: str) -> Any:
        """A measure of a method, over its releases."""

    def frontier(self, risk: str = ..., loss: str = ...) -> list[str]:
        """The methods that no other beats."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""


@dataclass(frozen=True)
class File:
    """A file by its name, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, repr=False)
class ThinnedPair:
    """Two tables side by side, thinned for pictures."""

    names: Sequence[str]
    before: Matrix
    after: Matrix

    @cached_property
    def losses(self) -> list[Row]:
        """What each column lost."""
        return portrait.losses(self.before, self.after, self.names)

    @cached_property
    def correlation_changes(self) -> list[Row]:
        """What became of the correlation of each pair of columns."""
        return portrait.correlation_changes(self.before, self.after, self.names)

    @property
    def some(self) -> tuple[Matrix, Matrix, list[str]]:
        """The columns that are shown one by one: all, or those that lost most of their distribution."""
        ranked = sorted(range(len(self.names)), key=lambda j: -(self.losses[j]["distribution"] or 0.0))
        those = sorted(ranked[: portrait.MOST_COLUMNS])
        return self.before.select(those), self.after.select(those), [self.names[j] for j in those]


@dataclass(frozen=True, repr=False)
class Material:
    """Everything a report can tell. `before` and `after` are the protected columns, codes and missing cells as NaN."""

    release: Release
    summary: str = ""
    reference: str = ""
    assessment: Assessment | None = None
    measured: str = ""
    options: Sequence[str] = ()
    """Of the command, in addition to the settings: how the files are read and written."""

    study: Compared | None = None
    names: Sequence[str] = ()
    before: Matrix | None = None
    after: Matrix | None = None
    labels: LabelPair | None = None
    audits: Sequence[Audit] | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    absent: str = NO_ORIGINAL
    """Why there are no tables, where there are none."""

    @cached_property
    def view(self) -> ThinnedPair | None:
        """Both tables as far as pictures need them."""
        if self.before is None or self.after is None:
            return None
        return ThinnedPair(self.names, portrait.thinned(self.before), portrait.thinned(self.after))

    def picture(
        self, title: str, description: str, rows: Callable[[ThinnedPair], list[Row]], *, some: bool = False
    ) -> dict[str, Any]:
        """A picture of both tables; `some` says that of many columns those are shown that lost most."""
        view, most = self.view, portrait.MOST_COLUMNS
        if some and len(self.names) > most:
            description += f" Shown are the {most} of {len(self.names)} columns that lost most."
        return picture(title, description, None if view is None else lambda: rows(view), self.absent)

    @property
    def distances(self) -> list[float]:
        """Between the distributions of each column before and after."""
        losses = [] if self.view is None else self.view.losses
        return [row["distribution"] for row in losses if row["distribution"] is not None]


def heading(audience: str) -> dict[str, Any]:
    """What every report begins with."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"format": FORMAT, "audience": audience, "microveil": __version__, "made": made}


def statistic_meanings(weighted: bool, by_stratum: bool) -> dict[str, str]:
    """What the statistics that are kept are, and in which unit their errors are given."""
    of = "weighted " if weighted else ""
    where = " in every stratum" if by_stratum else ""
    return {
        "mean": f"{of}column means{where} (in standard deviations)",
        "covariance": f"{of}variances and covariances{where} (over the product of two standard deviations)",
        "rank correlation": "Spearman's correlations",
        "distribution": "the distributions of the columns (largest distance between two, by Kolmogorov and Smirnov)",
        "mean in clusters": "column means in every cluster (in standard deviations over all records)",
        "covariance in clusters": "variances and covariances in every cluster (over the product of two standard "
        "deviations over all records)",
        "linear rules": "sums and other linear rules between columns (over the size of their terms)",
        "two-way tables": "tables of two columns of labels (share of the records that would have to move)",
        "weighted mean": "column means by the released weights (in weighted standard deviations)",
        "weighted spread": "standard deviations by the released weights (relative)",
        "group means": "column means in the groups that labels make, small ones left out (in standard deviations)",
    }


def kept(release: Release) -> list[dict[str, Any]]:
    """The statistics that are kept, with the largest difference and what it means."""
    meanings = statistic_meanings(
        weighted=release.settings["weight"] is not None, by_stratum=bool(release.settings["strata"])
    )
    meanings |= {f"{name} of units": f"{meaning}; each unit counts once" for name, meaning in meanings.items()}
    return [
        {
            "statistic": name,
            "difference": error,
            "exactly": name in release.kept_exactly,
            "kept": "exactly" if name in release.kept_exactly else "not" if name in release.not_kept else "closely",
            "meaning": meanings[name],
        }
        for name, error in release.kept.items()
    ]


def roles(release: Release) -> dict[str, list[str]]:
    """Columns by role, in words; a formula as it was given."""
    settings = release.settings
    given = {
        "protected": settings["confidential"],
        "public": settings["public"],
        "strata": settings["strata"],
        "weight": settings["weight"],
        "unit": settings.get("unit"),
        "dropped": settings.get("drop"),
    }
    columns = {role: [those] if isinstance(those, str) else list(those) for role, those in given.items() if those}
    others = [name for name in release.in_clear if not any(name in those for those in columns.values())]
    return {**columns, "released as they are": others} if others else columns


def picture(title: str, description: str, rows: Callable[[], list[Row]] | None, absent: str = "") -> dict[str, Any]:
    """A picture's words and numbers; where it cannot be had, the reason."""
    found: list[Row] = []
    if rows is not None:
        absent = ""
        try:
            found = rows()
        except (ArithmeticError, ValueError):  # of figures nobody foresaw; a report is worth more than a picture
            absent = "its figures could not be computed"
    if not found and not absent:
        absent = "there are too few values, or nothing varies"
    return {"title": title, "description": description, "rows": found, "absent": absent}


def strict(value: Any) -> Any:
    """The value as strict JSON has it: infinity by its name, and nothing where there is no number."""
    if isinstance(value, Mapping):
        return {str(name): strict(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [strict(item) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return strict(value.tolist())
    if isinstance(value, float) and math.isnan(value):
        return None
    known = isinstance(value, float | int | str | bool | None)
    return plain(value) if known else f"<{type(value).__name__}>"  # its text could be that of a table
