"""Libraries: tables and pictures in classes of alike spectra, and how many components each class can spare.

D'Acquisto and Naldi, §IV: "building sets of image libraries that exhibit a similar eigenvalues structure, e.g. by
looking at the dominant eigenvalue". For every member it is counted how many of the largest components go before the
opinion that a link predicts falls below a limit; a class answers with the median of its members, and leaving each
member out in turn shows how far such answers are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import sorted_eigen
from microveil.core.table import Matrix
from microveil.io.config_files import Strict, read_strictly
from microveil.measures.base import standardised
from microveil.opinion.link import Link, predicted_mos

FEWEST = 3
"""Members of a class at least: one is left out, and two have a median that is both."""

HINT = "`microveil mos library` writes one"


@dataclass(frozen=True)
class Member:
    """A table or picture: the share of its dominant eigenvalue, and how many components it can spare of how many."""

    name: str
    share: float
    spared: int
    columns: int


def member(name: str, table: Matrix, link: Link, limit: float) -> Member:
    """Remove the largest components of a table while the opinion that the link predicts is at least the limit.

    It is the member of this `name`; the table has no missing cells.
    """
    scores, _ = standardised(table, table)
    if np.isnan(scores).any():
        raise DataError(f"{name}: it has missing cells", "leave those rows or columns out")
    width = scores.shape[1]
    if width < 2:
        raise DataError(f"{name}: one column has no components", "give tables with at least two that vary")
    values, weights = sorted_eigen(scores.T @ scores / len(scores))
    gauge, original = predicted_mos(link), Matrix.from_array(scores)
    spared = 0
    for count in range(1, width):
        left = scores - scores @ weights[:, :count] @ weights[:, :count].T
        if gauge(original, Matrix.from_array(left)).value < limit:
            break
        spared = count
    return Member(name, float(values[0] / values.sum()), spared, width)


class SpectralClass(Strict):
    """Spectra whose dominant eigenvalue has a share from `low` to `high` of the variance, and what members spare."""

    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    members: int = Field(ge=FEWEST)
    components: int = Field(ge=0)
    fewest: int = Field(ge=0)
    most: int = Field(ge=0)


class Library(Strict):
    """Classes of spectra, by rising shares; `error` and `error_without_classes` are those of members left out."""

    version: Literal[1] = 1
    limit: float = Field(ge=0, le=100)
    predictor: str
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    error: float = Field(ge=0)
    error_without_classes: float = Field(ge=0)
    classes: Annotated[tuple[SpectralClass, ...], Field(strict=False, min_length=1)]

    @property
    def helps(self) -> bool:
        """Are the classes better than one median for all?"""
        return self.error < self.error_without_classes

    def class_of(self, share: float) -> SpectralClass:
        """The class of a share: the nearest, where there is none around it."""
        return min(self.classes, key=lambda one: max(one.low - share, share - one.high, 0.0))

    def components_for(self, table: Any) -> tuple[int, SpectralClass]:
        """How many components a table (records x columns) can spare by its spectrum, and the class that says so."""
        rows = Matrix.from_array(np.asarray(table, dtype=np.float64))
        scores, _ = standardised(rows, rows)
        values = sorted_eigen(scores.T @ scores / len(scores))[0]
        found = self.class_of(float(values[0] / values.sum()))
        return min(found.components, scores.shape[1] - 1), found

    def to_dict(self) -> dict[str, Any]:
        """What the file holds."""
        content = self.model_dump()
        lists = {name: list(content[name]) for name in ("classes", "notes")}
        return {"library": {**content, **lists}}


class _LibraryFile(Strict):
    library: Library


def read_library(source: Mapping[str, Any] | str | Path) -> Library:
    """A library from its file, or from a dict of the same shape."""
    return read_strictly(_LibraryFile, "library", source, HINT).library


def library_of(members: Sequence[Member], link: Link, limit: float, classes: int = 3) -> Library:
    """Members in so many classes of equal size, by the share of the dominant eigenvalue; the others as in `member`."""
    if not link.bottom < limit < link.top:
        raise ParameterError(
            f"limit: the link never leaves {link.bottom:.4g} to {link.top:.4g}", "give a limit in between"
        )
    if isinstance(classes, bool) or classes < 1 or len(members) < FEWEST * classes:
        raise ParameterError(
            f"classes: {classes} asked of {len(members)} files", f"each needs {FEWEST} files at least; ask for fewer"
        )
    ordered = sorted(members, key=lambda one: one.share)
    groups = [[ordered[i] for i in part] for part in np.array_split(np.arange(len(ordered)), classes)]
    found = [
        {
            "low": group[0].share,
            "high": group[-1].share,
            "members": len(group),
            "components": _median(_spared(group)),
            "fewest": int(_spared(group).min()),
            "most": int(_spared(group).max()),
        }
        for group in groups
    ]
    errors = np.concatenate([_left_out(_spared(group)) for group in groups])
    return Library(
        limit=float(limit),
        predictor=link.predictor,
        notes=(f"opinions are predicted by a link fitted to {link.source}, and nobody was asked", *link.caveats),
        error=float(errors.mean()),
        error_without_classes=float(_left_out(_spared(ordered)).mean()),
        classes=tuple(SpectralClass(**one) for one in found),
    )


def _spared(members: Sequence[Member]) -> Array:
    return np.array([one.spared for one in members], dtype=np.float64)


def _median(spared: Array) -> int:
    """The lower one of two in the middle: rather a component too few than one too many."""
    return int(np.sort(spared)[(spared.size - 1) // 2])


def _left_out(spared: Array) -> Array:
    """How far the answer of the others is off, for each member."""
    return np.array([abs(_median(np.delete(spared, i)) - spared[i]) for i in range(spared.size)])
