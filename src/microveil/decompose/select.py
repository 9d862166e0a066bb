"""Which components to perturb; and which factors, and how to turn them first (Calviño et al. 2017, §IV)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import nearest_rotation, rank_of, signs_of, sorted_eigen
from microveil.core.moments import Moments
from microveil.core.parameters import Step
from microveil.core.table import Matrix
from microveil.decompose.base import Axes


@dataclass(frozen=True, repr=False)
class Offer:
    """What a selection chooses from.

    `shares` is components x columns, the share of each column's variance; `sensitive` numbers the columns. `without`
    gives the columns as a release with some components taken out has them, those that follow from others among them;
    without none, they are the original ones. A selection may leave `remarks` for the owner of the
    release and `notes` on single components.
    """

    axes: Axes
    shares: Array
    columns: tuple[str, ...]
    sensitive: list[int]
    without: Callable[[list[int]], Matrix]
    remarks: list[str] = field(default_factory=list)
    notes: dict[int, str] = field(default_factory=dict)


class Selection(Step):
    """Base of all selections."""

    looks_at_rows: ClassVar[bool] = False
    """True when the choice depends on what the columns would be without some components."""

    @property
    def sensitive_columns(self) -> tuple[int | str, ...]:
        """The columns the user called sensitive, where there is such a parameter."""
        return getattr(self, "sensitive", ())

    def turned(self, axes: Axes, sensitive: list[int], centred: Moments) -> Axes:  # noqa: ARG002 - for those who turn
        """The axes to choose from, for selections that turn them first; `centred` has the moments of the data."""
        return axes

    @abstractmethod
    def choose(self, offer: Offer) -> list[int]:
        """Numbers of the components to perturb, counted from 0."""


def _whole_numbers(value: Any) -> Any:
    """Accept numpy integers and arrays, refuse true/false (which Python counts as 1 and 0)."""
    if isinstance(value, np.ndarray | np.integer):
        value = value.tolist()
    if isinstance(value, bool) or (isinstance(value, list | tuple) and any(isinstance(v, bool) for v in value)):
        raise ValueError("true and false are not components")
    return tuple(value) if isinstance(value, list) else value


def _columns(value: Any) -> Any:
    """One column may come without a list around it; true is not a column."""
    columns = [value] if isinstance(value, str | int | np.integer) else value
    if isinstance(columns, list | tuple) and any(isinstance(column, bool) for column in columns):
        raise ValueError("true and false are not columns")
    return columns


whole_numbers = BeforeValidator(_whole_numbers)
Numbers = Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=0)], ...]
"""The first few components, or a list of them counted from 0."""

Columns = Annotated[tuple[int | str, ...], BeforeValidator(_columns)]


def component_numbers(name: str, chosen: Any, count: int) -> list[int]:
    """The first few of `count` components, or those listed, for the parameter of this name."""
    if isinstance(chosen, int):
        if chosen > count:
            raise ParameterError(f"{name}: {chosen} asked, but there are {count}", "ask for fewer")
        return list(range(chosen))
    listed = list(chosen)
    if not listed:
        raise ParameterError(f"{name}: the list is empty", "name at least one component, counted from 0")
    if max(listed) >= count:
        raise ParameterError(f"{name}: there is no component {max(listed)}", f"they are counted from 0 to {count - 1}")
    if len(set(listed)) < len(listed):
        raise ParameterError(f"{name}: a component is listed twice", "list each once")
    return listed


class Components(Selection):
    """Choose the components to perturb: all, the first few, a list, or those that carry sensitive columns.

    Calviño (2017), §3 and §4.2.
    """

    components: Annotated[Literal["all", "sensitive"] | Numbers, whole_numbers] = Field(
        default="all",
        description="which components to perturb: all of them, the first c, a list counted from 0, or the largest "
        "carriers of each sensitive column",
        json_schema_extra={"allowed": "all, a number from 1, a list of numbers from 0, or sensitive"},
    )
    sensitive: Columns = Field(
        default=(),
        description="columns that need protection most, for components='sensitive'",
        json_schema_extra={"allowed": "a list of columns"},
    )
    sensitive_share: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="share of each sensitive column's variance that must lie in the perturbed components",
    )
    sensitive_loading: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="take the components on which a sensitive column has at least this absolute weight, in the place "
        "of a share",
        json_schema_extra={"allowed": "a number above 0 and below 1"},
    )

    @model_validator(mode="after")
    def _share_needs_sensitive(self) -> Self:
        share = self.sensitive_share != type(self).model_fields["sensitive_share"].default
        for name, given in (("sensitive_share", share), ("sensitive_loading", self.sensitive_loading is not None)):
            if given and self.components != "sensitive":
                raise ValueError(f"{name} goes with components='sensitive' only")
        if share and self.sensitive_loading is not None:
            raise ValueError("sensitive_share and sensitive_loading are two ways to choose; give one")
        return self

    def choose(self, offer: Offer) -> list[int]:
        """As asked."""
        count = offer.axes.count
        if self.components == "sensitive":
            if not offer.sensitive:
                raise ParameterError("sensitive: no column named", "components='sensitive' needs sensitive=[...]")
            if self.sensitive_loading is not None:
                return self._loading(offer.axes.weights, offer.sensitive, self.sensitive_loading)
            return self._carrying(offer.shares, offer.sensitive)
        if offer.sensitive:
            raise ParameterError("sensitive: goes with components='sensitive' only", "set components='sensitive'")
        if self.components == "all":
            return list(range(count))
        return component_numbers("components", self.components, count)

    def _carrying(self, shares: Array, sensitive: list[int]) -> list[int]:
        """The largest carriers of each sensitive column, until the share is reached."""
        chosen: set[int] = set()
        for column in sensitive:
            largest_first = np.argsort(-shares[:, column], kind="stable")
            reached = np.cumsum(shares[largest_first, column]) / shares[:, column].sum()
            needed = int(np.searchsorted(reached, self.sensitive_share * (1 - 1e-12))) + 1
            chosen.update(largest_first[:needed].tolist())
        return sorted(chosen)

    @staticmethod
    def _loading(weights: Array, sensitive: list[int], least: float) -> list[int]:
        """The components whose `weights` (columns x components) on a sensitive column reach a threshold.

        Calviño (2017), Fig. 1; Calviño, Aldeguer and Domingo-Ferrer (2017), §IV.1.
        """
        found = np.flatnonzero((np.abs(weights[sensitive]) >= least).any(axis=0)).tolist()
        if not found:
            largest = float(np.abs(weights[sensitive]).max())
            raise ParameterError(
                "sensitive_loading: no component has such a weight on a sensitive column",
                f"use a lower one, below {largest:.2f}",
            )
        return found


Criterion = Literal["all", "loads_on_sensitive", "not_on_public", "more_sensitive_than_public"]

Rotation = Literal["none", "varimax", "sensitive_first", "public_first"]

ROUNDS = 500
SETTLED = 1e-10
"""Relative gain of the varimax criterion below which it has converged."""

THRESHOLDED = ("loads_on_sensitive", "not_on_public")


class FactorSelection(Selection):
    """Choose the factors to perturb, after turning them so that few of them speak for the sensitive columns.

    What the paper calls public are here the other confidential columns: they are protected less, not released as they
    are. Loadings are correlations of a column with a factor, compared without their signs.
    """

    select: Annotated[Criterion | Numbers, whole_numbers] = Field(
        default="all",
        description="which factors to perturb: all, those that load on a sensitive column above the threshold, "
        "those that load on no other column above it, those that load more on a sensitive column than on any "
        "other, the first c, or a list counted from 0",
        json_schema_extra={
            "allowed": "all, loads_on_sensitive, not_on_public, more_sensitive_than_public, a number from 1, or a "
            "list of numbers from 0"
        },
    )
    threshold: float = Field(
        default=0.3, ge=0, lt=1, description="loading above which a factor counts as loading on a column"
    )
    rotation: Rotation = Field(
        default="none",
        description="how to turn the factors first: not at all, to large and small loadings, or so that the "
        "sensitive columns (or the others) load on as few as possible",
    )
    rest: Literal["perturb", "perturb_sensitive", "keep"] = Field(
        default="perturb",
        description="what happens to that part of a column which no factor shares: the same as to the factors, "
        "that for the sensitive columns only, or nothing, with a warning",
    )
    sensitive: Columns = Field(
        default=(),
        description="columns that need protection most, for select, rotation and rest",
        json_schema_extra={"allowed": "a list of columns"},
    )

    @model_validator(mode="after")
    def _threshold_needs_criterion(self) -> Self:
        if self.select not in THRESHOLDED and self.threshold != type(self).model_fields["threshold"].default:
            raise ValueError(f"threshold goes with select='{THRESHOLDED[0]}' or '{THRESHOLDED[1]}' only")
        return self

    def turned(self, axes: Axes, sensitive: list[int], centred: Moments) -> Axes:
        """The axes with their factors turned; the rest stays."""
        self._check_sensitive(sensitive)
        count = axes.shared
        if self.rotation == "none" or count == 0:
            return axes
        loadings = axes.weights[:, :count]
        if self.rotation == "varimax":
            turn = varimax(loadings)
        else:
            others = [j for j in axes.columns.tolist() if j not in sensitive]
            turn = columns_first(loadings, sensitive if self.rotation == "sensitive_first" else others)
        return _turned(axes, turn, centred.covariance)

    def choose(self, offer: Offer) -> list[int]:
        """By the criterion, and the rest if it is to be perturbed too."""
        count = offer.axes.shared
        rest = [
            count + place
            for place, column in enumerate(offer.axes.rest_of)
            if self.rest == "perturb" or (self.rest == "perturb_sensitive" and column in offer.sensitive)
        ]
        chosen = self._factors(offer, count)
        if not chosen and not rest:
            raise DataError(
                "the columns have no common factor, so that there is nothing to perturb",
                "use rest='perturb', or another method",
            )
        _tell_of_rest(offer, chosen, rest)
        return [*chosen, *rest]

    def _factors(self, offer: Offer, count: int) -> list[int]:
        if count == 0 or self.select == "all":
            return list(range(count))
        if not isinstance(self.select, str):
            return component_numbers("select", self.select, count)
        loadings = np.abs(offer.axes.weights[:, :count])
        others = [j for j in offer.axes.columns.tolist() if j not in offer.sensitive]
        on_sensitive = loadings[offer.sensitive].max(axis=0)
        on_others = loadings[others].max(axis=0, initial=0.0)
        meets = {
            "loads_on_sensitive": on_sensitive > self.threshold,
            "not_on_public": on_others <= self.threshold,
            "more_sensitive_than_public": on_sensitive > on_others,
        }[self.select]
        if not meets.any():
            raise ParameterError(
                f"select: none of the {count} factors meets '{self.select}', so that nothing would be perturbed",
                "use another rotation, criterion or threshold",
            )
        return np.flatnonzero(meets).tolist()

    def _check_sensitive(self, sensitive: list[int]) -> None:
        """Sensitive columns must be named where they are asked for, and only there."""
        asking = [
            name
            for name, asks in [
                (f"select='{self.select}'", isinstance(self.select, str) and self.select != "all"),
                (f"rotation='{self.rotation}'", self.rotation in ("sensitive_first", "public_first")),
                (f"rest='{self.rest}'", self.rest == "perturb_sensitive"),
            ]
            if asks
        ]
        if asking and not sensitive:
            raise ParameterError("sensitive: no column named", f"{asking[0]} needs sensitive=[...]")
        if sensitive and not asking:
            raise ParameterError(
                "sensitive: plays no part in this select, rotation and rest", "set one of them that uses it"
            )


def _tell_of_rest(offer: Offer, factors: list[int], perturbed: list[int]) -> None:
    """How much of the columns is in no factor and stays as it is, and what of them comes through altogether."""
    kept = [k for k in range(offer.axes.shared, offer.axes.count) if k not in perturbed]
    if not kept:
        return
    shares = offer.shares[kept].sum(axis=0)
    most = int(shares.argmax())
    moved = offer.axes.weights[:, [*factors, *perturbed]]
    unmoved = offer.axes.columns.size - rank_of(sorted_eigen(moved @ moved.T)[0])
    through = f", and {unmoved} combinations of the columns come through exactly" if unmoved else ""
    offer.remarks.append(
        f"the rest of the columns, which no factor shares, is untouched: {shares[shares > 0].mean():.0%} of their "
        f"variance, the most in '{offer.columns[most]}' ({shares[most]:.0%}){through}; rest='perturb' perturbs it too"
    )


def _turned(axes: Axes, turn: Array, covariance: Array) -> Axes:
    """The axes with their first components turned by an orthogonal matrix."""
    whole = np.eye(axes.count)
    whole[: turn.shape[0], : turn.shape[0]] = turn
    projection = axes.projection @ whole
    noise = None if axes.noise is None else axes.noise @ whole
    variance = np.einsum("ij,ij->j", projection, covariance @ projection)
    return replace(
        axes,
        projection=projection,
        loadings=whole.T @ axes.loadings,
        variance=variance if noise is None else variance + np.square(noise).sum(axis=0),
        weights=axes.weights @ whole,
        noise=noise,
    )


# --- Rotations: orthogonal matrices T; L T says the same as the loadings L (columns x factors) in other words.
# (L T)(L T)' = L L', so a rotation changes neither what the factors explain nor the rest; it only decides which factor
# speaks for which columns.


def columns_first(loadings: Array, columns: list[int]) -> Array:
    """The rotation after which the first of the columns loads on the first factor only, the second on two, and so on.

    Calviño et al. (2017), §IV: "rotate all factors until only the first factor represents it", variable by variable.
    All those steps in one: with Q R the full QR decomposition of the columns' loadings, transposed, L Q has R' in their
    rows, which is lower triangular. Signs are such that its diagonal is not negative.
    """
    rotation, upper = np.linalg.qr(loadings[columns].T, mode="complete")
    negative = np.diagonal(upper) < 0
    rotation[:, : negative.size] *= np.where(negative, -1.0, 1.0)
    return rotation


def varimax(loadings: Array) -> Array:
    """The rotation that drives squared loadings apart, towards zero and one (Kaiser 1958, rows brought to unit length).

    Each round turns to the nearest rotation in the direction of steepest ascent, which never lowers the criterion.
    """
    count = loadings.shape[1]
    rotation = np.eye(count)
    if count < 2:
        return rotation
    length = np.sqrt(np.square(loadings).sum(axis=1, keepdims=True))
    rows = loadings / np.where(length > 0, length, 1.0)
    reached = -np.inf
    for _ in range(ROUNDS):
        turned = rows @ rotation
        rotation = nearest_rotation(rows.T @ (turned**3 - turned * np.square(turned).mean(axis=0)))
        now = varimax_criterion(rows @ rotation)
        if now <= reached + SETTLED * abs(now):
            break
        reached = now
    return rotation * signs_of(loadings @ rotation)


def varimax_criterion(loadings: Array) -> float:
    """The variance of the squared loadings, summed over the factors."""
    return float(np.square(loadings).var(axis=0).sum())
