"""Which components to perturb."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
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
        """The columns the user called sensitive."""
        return ()

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


def numbered(name: str, chosen: Any, count: int) -> list[int]:
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

    @model_validator(mode="after")
    def _share_needs_sensitive(self) -> Self:
        if (
            self.components != "sensitive"
            and self.sensitive_share != type(self).model_fields["sensitive_share"].default
        ):
            raise ValueError("sensitive_share goes with components='sensitive' only")
        return self

    @property
    def sensitive_columns(self) -> tuple[int | str, ...]:
        """As given."""
        return self.sensitive

    def choose(self, offer: Offer) -> list[int]:
        """As asked."""
        count = offer.axes.count
        if self.components == "sensitive":
            return self._carrying(offer.shares, offer.sensitive)
        if offer.sensitive:
            raise ParameterError("sensitive: goes with components='sensitive' only", "set components='sensitive'")
        if self.components == "all":
            return list(range(count))
        return numbered("components", self.components, count)

    def _carrying(self, shares: Array, sensitive: list[int]) -> list[int]:
        """The largest carriers of each sensitive column, until the share is reached."""
        if not sensitive:
            raise ParameterError("sensitive: no column named", "components='sensitive' needs sensitive=[...]")
        chosen: set[int] = set()
        for column in sensitive:
            largest_first = np.argsort(-shares[:, column], kind="stable")
            reached = np.cumsum(shares[largest_first, column]) / shares[:, column].sum()
            needed = int(np.searchsorted(reached, self.sensitive_share * (1 - 1e-12))) + 1
            chosen.update(largest_first[:needed].tolist())
        return sorted(chosen)
