"""Clusters of records, inside which regressions of their own are fitted (Langsrud 2019, §6); and outlying records."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from microveil.core.arrays import Array
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.base import SQUARED, Axes, Decomposition, Sample
from microveil.decompose.cholesky import residual_axes
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


def _choice(meaning: str) -> Any:
    return Field(description=meaning, json_schema_extra={"allowed": "a list of columns"})


def _regressors(meaning: str) -> Any:
    return Field(description=meaning, json_schema_extra={"allowed": "a list of columns, or a formula"})


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


class Clustered(Decomposition):
    """Base of decompositions that regress inside clusters; what is left there has scores of its own."""

    reference: ClassVar[str] = "Langsrud (2019), §6"
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

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """The triangular axes of the residuals, which are what a report shows of them."""
        return residual_axes(centred)


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
    """Two clusters: ordinary records, and those far out by robust distances (minimum covariance determinant)."""

    reference: ClassVar[str] = "Langsrud (2019), §8; Templ and Meindl (2008)"

    outlier_quantile: float = Field(
        default=0.99,
        gt=0.5,
        lt=1,
        description="quantile of the chi-square distribution above which a squared robust distance is an outlier's",
    )

    @property
    def layout(self) -> ClusterLayout:
        """Public columns are regressed on in both."""
        return replace(super().layout, public_is_local=True)


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
"""Rows for each dimension that robust distances need at the least."""


def outlying(values: Array, quantile: float, stream: Stream) -> NDArray[np.bool_]:
    """Which rows have a robust distance beyond this quantile of the chi-square distribution.

    The distances are those of the minimum covariance determinant (Rousseeuw 1984), on principal components at unit
    variance, so that columns in different units and columns that follow from others do no harm.
    """
    from scipy.stats import chi2
    from sklearn.covariance import MinCovDet

    scale = values.std(axis=0)
    standard = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    variances, axes = sorted_eigen(standard.T @ standard / len(standard))
    rank = rank_of(variances)
    white = standard @ axes[:, :rank] / np.sqrt(variances[:rank])
    if white.shape[0] <= FEW * rank:
        return np.zeros(white.shape[0], dtype=bool)
    seed = int(stream.generator().integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dense half that is flat shows in its distances
        try:
            distances = MinCovDet(random_state=seed).fit(white).mahalanobis(white)
        except ValueError:  # half of the records are one and the same
            return np.zeros(white.shape[0], dtype=bool)
    far: NDArray[np.bool_] = distances > chi2.ppf(quantile, rank)
    return far
