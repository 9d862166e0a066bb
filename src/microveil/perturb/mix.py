"""Mixing: new residuals from old scores and from fresh ones that are uncorrelated with them (Langsrud 2019, §3).

All of it is one formula, Y* = fit + kept @ A + fresh @ C, where A and C are loadings with A'A + C'C = W'W: the
covariance of the residuals then comes back exactly. The methods differ in what is kept, and in A. The output of another
masker can also take the place of drawn values.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, field_serializer

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.factor import completion
from microveil.perturb.base import Draws, Perturbation


def _given(value: Any) -> Any:
    """A table of some kind, or the path of one; which it is will be seen when it is opened."""
    if value is None or isinstance(value, bool | int | float):
        raise ValueError("must be a table with the columns to protect and a row for each record")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


OwnShare = Annotated[float, Field(ge=0, lt=1)]

OtherTable = Annotated[
    Any,
    BeforeValidator(_given),
    Field(
        repr=False,
        description="the confidential columns as another masker released them, row by row: an array or a frame, or the "
        "path of a file",
        json_schema_extra={"allowed": "a table like the data, or the path of one", "data": True, "path": True},
    ),
]


@dataclass(frozen=True, repr=False)
class Mixed:
    """Loadings of the kept scores and of the fresh ones; `kept` numbers the scores that are kept.

    `found` has figures that were computed for it, by name, and `remark` is for the owner of the release.
    """

    old: Array
    new: Array
    kept: list[int]
    found: dict[str, float] = field(default_factory=dict)
    remark: str = ""


class Mixture(Perturbation):
    """Base of the mixtures. Fresh scores are uncorrelated with the public columns, the kept scores and each other."""

    mixes: ClassVar[bool] = True
    retention_varies: ClassVar[bool] = True  # with the loadings

    draws: Draws = None

    @abstractmethod
    def mix(self, own: Array, kept: Array, columns: Sequence[str]) -> Mixed:
        """The loadings, from those of the data's own residuals and of the scores that may be kept.

        Scores have unit variance. There is a column of loadings for each of `columns`, also for those that follow from
        others.
        """

    def touched(self, count: int) -> list[int]:
        """Which of so many components change."""
        return list(range(count))


def _shares(value: Any) -> Any:
    """A number, or a list of numbers in which None leaves one free."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    given = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, bool) for one in given):
        raise ValueError("true and false are not correlations")
    given = [None if one == "free" else one for one in given]
    if any(isinstance(one, int | float) and not 0 <= one <= 1 for one in given):
        raise ValueError("a correlation is at least 0 and at most 1")
    return tuple(given) if isinstance(value, list | tuple) else given[0]


Correlation = Annotated[float, Field(ge=0, le=1)]


class ScoreMix(Mixture):
    """Give each score of the release a set correlation with the original score.

    Langsrud (2019), eq. 8. New scores are d t + sqrt(1 - d²) t*, with t* fresh. A correlation of 1 keeps the score as
    it is, of 0 makes the new one exactly uncorrelated; None (or "free") leaves it to chance, which is what ipso does.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 8"

    correlation: Annotated[Correlation | tuple[Correlation | None, ...] | None, BeforeValidator(_shares)] = Field(
        default=0.5,
        description="correlation of each new score with the old one: one for all, or a list with one for each; "
        "None (or free) leaves it to chance",
        json_schema_extra={"allowed": "a number from 0 to 1 or free, or a list of these"},
    )

    @field_serializer("correlation")
    def _in_words(self, value: Any) -> Any:
        """A recipe cannot hold None."""
        words = ["free" if one is None else one for one in (value if isinstance(value, tuple) else [value])]
        return tuple(words) if isinstance(value, tuple) else words[0]

    def mix(self, own: Array, kept: Array, columns: Sequence[str]) -> Mixed:  # noqa: ARG002 - its own scores are kept
        """A = D W and C = sqrt(1 - D²) W, without the rows that vanish."""
        wanted = self._each(own.shape[0])
        held = [i for i, d in enumerate(wanted) if d is not None]
        fresh = [i for i, d in enumerate(wanted) if d != 1]
        if not fresh:
            raise ParameterError("correlation: 1 for every score would release the data as they are", "use less than 1")
        d = np.array([0.0 if one is None else one for one in wanted])
        return Mixed(old=d[held, None] * own[held], new=np.sqrt(1 - d[fresh, None] ** 2) * own[fresh], kept=held)

    def touched(self, count: int) -> list[int]:
        """All whose correlation is not 1."""
        return [i for i, d in enumerate(self._each(count)) if d != 1]

    def _each(self, count: int) -> list[float | None]:
        """A correlation for each score."""
        if not isinstance(self.correlation, tuple):
            return [self.correlation] * count
        if len(self.correlation) != count:
            raise ParameterError(
                f"correlation: {len(self.correlation)} given, but there are {count} scores",
                "give one number for all, or one for each score; columns that follow from others have none",
            )
        return list(self.correlation)


class Completed(Mixture):
    """Base of mixtures that keep given residuals, and add what is missing of the covariance (eq. 9-10).

    Where nothing can be added, because the residuals have too much of some direction already, all of them are taken
    `alpha` times, with the largest alpha for which it can. In that direction nothing is then added, and the release
    shows the given residuals.
    """

    lower: bool = Field(
        default=True,
        description="where there is no solution, take all residuals alpha times with the largest alpha that has "
        "one (and say so); false refuses instead",
    )

    def completed(self, own: Array, part: Array, kept: int, what: str) -> Mixed:
        """Alpha times the `part` of the data's `own` loadings, with so many `kept` scores, and what completes it.

        `what` is taken alpha times is said in a remark.
        """
        found = completion(own, part)
        if found.share < 1 and not self.lower:
            raise DataError(
                f"no residuals complete these: the largest alpha is {found.limit:.6g}",
                "use lower=true, or ask for less",
            )
        remark = f"{what} taken alpha = {found.share:.8g} times, as there is no solution above"
        if 0 < found.share < 1:
            remark += "; in one combination of the columns nothing is added to them, and it can link records"
        return Mixed(
            old=found.share * part,
            new=found.matrix,
            kept=list(range(kept)),
            found={"alpha": found.share, "alpha_limit": found.limit},
            remark="" if found.share == 1 else remark,
        )


class ResidualMix(Completed):
    """Give the residuals of each column a set correlation with the original ones.

    Langsrud (2019), eq. 7, after Muralidhar and Sarathy (2008). Not every set of correlations has a solution: where
    there is none, all are multiplied by the largest alpha for which there is one.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 7, 9 and 10; Muralidhar and Sarathy (2008)"

    correlation: Annotated[Correlation | tuple[Correlation, ...], BeforeValidator(_shares)] = Field(
        default=0.5,
        description="correlation of the new residuals of each column with the old ones: one for all, or a list "
        "with one for each column",
        json_schema_extra={"allowed": "a number from 0 to 1, or a list of numbers"},
    )

    def mix(self, own: Array, kept: Array, columns: Sequence[str]) -> Mixed:  # noqa: ARG002 - its own scores are kept
        """A = alpha W D."""
        wanted = self.correlation if isinstance(self.correlation, tuple) else (self.correlation,) * len(columns)
        if len(wanted) != len(columns):
            raise ParameterError(
                f"correlation: {len(wanted)} given, but {len(columns)} columns vary ({', '.join(columns)})",
                "give one number for all, or one for each of them, in this order",
            )
        return self.completed(own, own * np.array(wanted), own.shape[0], "correlation: all are")


class SyntheticAddition(Completed):
    """Start from the residuals of another masker's output, and add what is missing of the covariance.

    Langsrud (2019), eq. 5-6 and 9-10. What is added is uncorrelated with the public columns and with these residuals.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 5-6, 9 and 10"
    from_other: ClassVar[bool] = True

    other: OtherTable

    def mix(self, own: Array, kept: Array, columns: Sequence[str]) -> Mixed:  # noqa: ARG002 - errors name no column
        """A = alpha times the loadings of the given residuals."""
        return self.completed(own, kept, kept.shape[0], "other: its residuals are")


class OtherScores(Perturbation):
    """Take the scores of another masker's output; orthogonalised, they make its moments exact.

    Langsrud (2019), eq. 11-12. With `decomposition='qr'` the release stays close to that output, closest in the first
    columns; with svd it need not, as components with nearly equal variances change places easily.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 11-13"
    mixes: ClassVar[bool] = True
    from_other: ClassVar[bool] = True
    random: ClassVar[bool] = False
    retention_varies: ClassVar[bool] = True  # with the other masker

    other: OtherTable
    own_share: OwnShare | tuple[OwnShare, ...] = Field(
        default=0.0,
        description="share of the original in what is corrected, for all columns or for each in their order (eq. 13): "
        "near 1 the release is near the original",
        json_schema_extra={"allowed": "a number from 0 to below 1, or one for each column"},
    )

    def combined(self, own: Sequence[Array], other: Sequence[Array]) -> list[Array]:
        """Y_g = Y D + Y_s (I - D), columns by columns (eq. 13), Y_s being the other masker's output."""
        shares = self.own_share if isinstance(self.own_share, tuple) else (self.own_share,) * len(own)
        if len(shares) != len(own):
            raise ParameterError(
                f"own_share: {len(shares)} given, but {len(own)} columns are protected", "give one number, or one each"
            )
        return [share * mine + (1 - share) * theirs for share, mine, theirs in zip(shares, own, other, strict=True)]
