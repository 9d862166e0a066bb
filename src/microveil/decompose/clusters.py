"""Clusters of records, inside which regressions of their own are fitted (Langsrud 2019, §6); and outlying records.

There are two levels of a regression. Y = fit within + fit across + between + within, four orthogonal parts. The first
is the regression on X_A inside each cluster; the second that on X_B, made orthogonal to it, over all records; `between`
is what slopes of X_B of their own would add in each cluster, and `within` what is left then. The same split serves the
data and drawn values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from microveil.core.arrays import Array, Index, Mask
from microveil.core.factor import generalised_qr, without_round_off
from microveil.core.late import stats
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.rng import Stream
from microveil.decompose.axes import Cholesky
from microveil.decompose.base import SQUARED
from microveil.decompose.ica import dense_half
from microveil.decompose.select import Columns

USUAL_SIZE = 10
"""Records of a cluster, at least, where nothing is said."""


def _columns_or_formula(value: Any) -> Any:
    """A formula stays the text it is; a column may come without a list around it."""
    if isinstance(value, str) and value.lstrip().startswith("~"):
        return value
    return [value] if isinstance(value, str | int) and not isinstance(value, bool) else value


Regressors = tuple[int | str, ...] | str
"""Columns, or a formula."""


def _choice(meaning: str, allowed: str = "a list of columns") -> Any:
    return Field(description=meaning, json_schema_extra={"allowed": allowed})


_regressors = partial(_choice, allowed="a list of columns, or a formula")


ClusterColumns = Annotated[
    Columns, _choice("columns whose values make the clusters; they are released as they are, like all columns below")
]
Size = Annotated[
    int | None,
    Field(
        ge=2,
        description="instead of columns: put records together that are similar in all protected and public columns "
        "(MDAV), at least so many in a cluster",
        json_schema_extra={"allowed": "a whole number at least 2"},
    ),
]
GivenRegressors = Annotated[Regressors, BeforeValidator(_columns_or_formula)]
Local = Annotated[GivenRegressors, _regressors("columns to regress on in each cluster")]
Global = Annotated[GivenRegressors, _regressors("columns to regress on over all records, as public ones are")]
Modification = Literal["a", "b", "c"]


@dataclass(frozen=True)
class ClusterLayout:
    """Which records belong together and what is regressed on where: everything that the steps of §6 ask for.

    Clusters are those of columns, of `similar` records (so many, at least), or ordinary and outlying records; without
    any of these all records are one. Where `as_pieces`, the clusters only keep their sums, and all records are one.
    """

    clusters: tuple[int | str, ...] = ()
    similar: int | None = None
    outlier_quantile: float | None = None
    keeps_outliers: bool = False
    as_pieces: bool = False
    public_is_local: bool = False
    local: Regressors = ()
    global_: Regressors = ()
    pieces: tuple[int | str, ...] = ()
    local_pieces: Regressors = ()
    groups: tuple[int | str, ...] = ()
    grouped: Regressors = ()
    modification: Modification | None = None
    alpha: float | None = None


class Clustered(Cholesky):
    """Base of decompositions that regress inside clusters; what is left there has scores of its own, on such axes."""

    ordered: ClassVar[bool] = True
    most_columns: ClassVar[int | None] = SQUARED

    @property
    def similar(self) -> int | None:
        """The size of clusters of similar records, where there are such."""
        return None

    @property
    def layout(self) -> ClusterLayout:
        """What belongs together, as the parameters of these names say."""
        given = {
            each.name: getattr(self, each.name)
            for each in fields(ClusterLayout)
            if each.name in type(self).model_fields
        }
        return ClusterLayout(similar=self.similar, **given)


class _GivenClusters(Clustered):
    """Clusters of columns or of similar records."""

    clusters: ClusterColumns = ()
    group_size: Size = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.clusters and self.group_size is not None:
            raise ValueError("clusters and group_size are two ways to make clusters; give one of them")
        return self

    @property
    def similar(self) -> int | None:
        """The size of clusters of similar records, where no column makes them."""
        return None if self.clusters else self.group_size or USUAL_SIZE


class Microclusters(_GivenClusters):
    """Clusters in which public columns are regressed on: each on its own (MHa), or all together (MHb)."""

    variant: Literal["a", "b"] = Field(
        default="a",
        description="a protects each cluster by itself and keeps its covariances too; b protects all records "
        "together and keeps the sums of each cluster",
    )

    @property
    def layout(self) -> ClusterLayout:
        """As the variant says."""
        return replace(super().layout, as_pieces=self.variant == "b", public_is_local=True)


class Aggregates(_GivenClusters):
    """Clusters whose records are replaced by what is fitted to them."""

    local: Local = ()
    global_: Global = ()


class OutlyingRecords(Clustered):
    """Two clusters: ordinary records, and those far out by robust distances (Langsrud 2019, §8; Templ, Meindl 2008)."""

    outlier_quantile: float = Field(
        default=0.99,
        gt=0.5,
        lt=1,
        description="quantile of the chi-square distribution above which a squared robust distance is an outlier's",
    )
    outliers: Literal["redraw", "keep"] = Field(
        default="redraw",
        description="what happens to outlying records: new residuals among themselves, or nothing, with a warning: "
        "they are then released as they are, and everybody looks for outliers first",
    )

    @property
    def layout(self) -> ClusterLayout:
        """Public columns are regressed on in both."""
        return replace(super().layout, public_is_local=True, keeps_outliers=self.outliers == "keep")


class Clusters(_GivenClusters):
    """Regress inside clusters of records and across them; what both leave is replaced, cluster by cluster.

    Langsrud (2019), §6. `local` columns are regressed on in each cluster, public and `global_` ones over all records.
    The constant is local, so the sums of each cluster come back.
    """

    local: Local = ()
    global_: Global = ()
    pieces: Annotated[
        Columns, _choice("columns that cut clusters into pieces, each of which keeps its sums (modification e)")
    ] = ()
    local_pieces: Annotated[GivenRegressors, _regressors("columns to regress on in each piece of a cluster")] = ()
    groups: Annotated[Columns, _choice("columns whose values make groups of clusters (modification d)")] = ()
    grouped: Annotated[GivenRegressors, _regressors("columns to regress on in each group of clusters")] = ()
    modification: Modification | None = Field(
        default=None,
        description="how covariances inside clusters are kept where columns are regressed on over all records: a "
        "gives all clusters the same slopes, b keeps all that was drawn between clusters, c as much of it as there "
        "is room for; without one they are kept over all records only",
        json_schema_extra={"allowed": "a, b or c"},
    )
    alpha: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="for modification c: how much of what was drawn between clusters is taken; the most by default",
        json_schema_extra={"allowed": "a number from 0 to 1"},
    )

    @model_validator(mode="after")
    def _what_goes_together(self) -> Self:
        if self.alpha is not None and self.modification in ("a", "b"):
            raise ValueError("alpha goes with modification='c' only")
        if self.local_pieces and not self.pieces:
            raise ValueError("local_pieces goes with pieces only")
        if bool(self.grouped) != bool(self.groups):
            raise ValueError("groups and grouped go together: groups of clusters, and what is regressed on in each")
        return self

    @property
    def similar(self) -> int | None:
        """Only if asked for: without clusters all records are one."""
        return self.group_size

    @property
    def layout(self) -> ClusterLayout:
        """Alpha stands for the modification it goes with."""
        return replace(super().layout, modification="c" if self.alpha is not None else self.modification)


FEW = 2
"""Index for each dimension that robust distances need at the least."""


def outlying(values: Array, quantile: float, stream: Stream) -> Mask:
    """Which rows have a robust distance beyond this quantile of the chi-square distribution.

    The distances are those of the minimum covariance determinant (Rousseeuw 1984), on principal components at unit
    variance, so that columns in different units and columns that follow from others do no harm.
    """
    scale = values.std(axis=0)
    standard = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    variances, axes = sorted_eigen(standard.T @ standard / len(standard))
    rank = rank_of(variances)
    white = standard @ axes[:, :rank] / np.sqrt(variances[:rank])
    if white.shape[0] <= FEW * rank:
        return np.zeros(white.shape[0], dtype=bool)
    found = dense_half(white, stream)
    if found is None:
        return np.zeros(white.shape[0], dtype=bool)
    far: Mask = found.mahalanobis(white) > stats.chi2.ppf(quantile, rank)
    return far


@dataclass(frozen=True, repr=False)
class Parts:
    """The four parts of some columns, rows x columns each: Ŷ1, Ŷ2, Ê3 and Ê4 of the paper (eq. 19)."""

    fit_within: Array
    fit_across: Array
    between: Array
    within: Array

    @property
    def fit(self) -> Array:
        """What the regressions explain, which is kept as it is."""
        return self.fit_within + self.fit_across

    @property
    def residuals(self) -> Array:
        """What they leave, which is replaced."""
        return self.between + self.within


@dataclass(frozen=True, repr=False)
class Bases:
    """Groups of records, with an orthonormal basis in each of what is regressed on there."""

    groups: Sequence[Index]
    bases: Sequence[Array]

    def fit(self, columns: Array) -> Array:
        """What the regressions explain of some columns."""
        fitted = np.empty_like(columns)
        for rows, basis in zip(self.groups, self.bases, strict=True):
            fitted[rows] = basis @ (basis.T @ columns[rows])
        return fitted

    def leverage(self, count: int) -> Array:
        """The share of each record's own values in its fit."""
        leverage = np.empty(count)
        for rows, basis in zip(self.groups, self.bases, strict=True):
            leverage[rows] = np.square(basis).sum(axis=1)
        return leverage


@dataclass(frozen=True, repr=False)
class Levels:
    """Bases of what is regressed on: X_A in pieces of clusters and in clusters, X_2 in clusters and over all records.

    Without pieces a cluster is the only piece of itself, and has all of X_A there.
    """

    pieces: Bases
    local: Bases
    slopes: Bases
    across: Array

    @property
    def clusters(self) -> Sequence[Index]:
        """The records of each cluster."""
        return self.slopes.groups

    def split(self, columns: Array) -> Parts:
        """The four parts of some columns (steps 2-5, 7 and 8 of the algorithm)."""
        fit_within = self.pieces.fit(columns) + self.local.fit(columns)
        extended = self.slopes.fit(columns)
        fit_across = self.across @ (self.across.T @ columns)
        between = without_round_off(extended - fit_across, columns)
        within = _without_round_off(self.clusters, columns - fit_within - extended, columns)
        return Parts(fit_within, fit_across, between, within)

    @property
    def leverage(self) -> Array:
        """The share of each record's own values in its fit."""
        count = self.across.shape[0]
        own: Array = self.pieces.leverage(count) + self.local.leverage(count) + np.square(self.across).sum(axis=1)
        return own

    @property
    def free(self) -> list[int]:
        """How many dimensions each cluster has left for its residuals: leverages add up to those that are taken."""
        count = self.across.shape[0]
        taken = self.pieces.leverage(count) + self.local.leverage(count) + self.slopes.leverage(count)
        return [rows.size - round(float(taken[rows].sum())) for rows in self.clusters]


def fit_levels(
    clusters: Sequence[Index],
    local: Array,
    across: Array,
    pieces: Sequence[Index] | None = None,
    local_pieces: Array | None = None,
) -> Levels:
    """Bases of `local` and of `across` (rows x columns), the latter without what the former explains (steps 2 and 3).

    The constant is in `local` by itself. Where clusters have `pieces`, each piece has a constant of its own, and slopes
    of its own on `local_pieces` (modification e).
    """
    nothing = np.empty((local.shape[0], 0))
    if pieces is None:
        pieces, local_pieces, local = clusters, local, nothing
    inner = nothing if local_pieces is None else local_pieces
    first = Bases(pieces, [_with_constant(inner[rows]) for rows in pieces])
    second = _bases(clusters, _left(clusters, local, first))
    left = _left(clusters, across, first, second)
    return Levels(first, second, _bases(clusters, left), generalised_qr(left).scores)


def crossed(columns: Array, groups: Index) -> Array:
    """Each column once for each group, and zero outside of it."""
    marks = np.eye(int(groups.max()) + 1)[groups]
    return np.hstack([columns * mark[:, None] for mark in marks.T]) if columns.size else np.empty((groups.size, 0))


def _with_constant(columns: Array) -> Array:
    """A basis of the constant and of some columns, whose means are taken off first: they can be large."""
    constant = np.full((columns.shape[0], 1), 1 / np.sqrt(columns.shape[0]))
    if not columns.size:
        return constant
    centred = without_round_off(columns - columns.mean(axis=0), columns)
    return np.hstack([constant, generalised_qr(centred - constant @ (constant.T @ centred)).scores])


def _bases(groups: Sequence[Index], columns: Array) -> Bases:
    return Bases(groups, [generalised_qr(columns[rows]).scores for rows in groups])


def _left(clusters: Sequence[Index], columns: Array, *fitted: Bases) -> Array:
    """What fits inside clusters leave of some columns."""
    left = columns
    for _ in range(2 if columns.size else 0):  # once more: what the first pass leaves is round-off of large columns
        left = left - np.sum([bases.fit(left) for bases in fitted], axis=0)
    return _without_round_off(clusters, left, columns)


def _without_round_off(clusters: Sequence[Index], residuals: Array, columns: Array) -> Array:
    cleaned = np.empty_like(residuals)
    for rows in clusters if columns.size else ():
        cleaned[rows] = without_round_off(residuals[rows], columns[rows])
    return cleaned
