"""Which components to perturb."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.parameters import Step


def _components(value: Any) -> Any:
    """Accept numpy integers and arrays, refuse true/false (which Python counts as 1 and 0)."""
    if isinstance(value, np.ndarray | np.integer):
        value = value.tolist()
    if isinstance(value, bool) or (isinstance(value, list | tuple) and any(isinstance(v, bool) for v in value)):
        raise ValueError("true and false are not components")
    return tuple(value) if isinstance(value, list) else value


class Components(Step):
    """Choose the components to perturb: all, the first few, a list, or those that carry sensitive columns.

    Calviño (2017), §3 and §4.2.
    """

    components: Annotated[
        Literal["all", "sensitive"] | Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=0)], ...],
        BeforeValidator(_components),
        Field(
            description="which components to perturb: all of them, the first c, a list counted from 0, or the largest "
            "carriers of each sensitive column",
            json_schema_extra={"allowed": "all, a number from 1, a list of numbers from 0, or sensitive"},
        ),
    ] = "all"
    sensitive: Annotated[
        tuple[int | str, ...],
        Field(
            description="columns that need protection most, for components='sensitive'",
            json_schema_extra={"allowed": "a list of columns"},
        ),
    ] = ()
    sensitive_share: Annotated[
        float,
        Field(
            gt=0,
            le=1,
            description="share of each sensitive column's variance that must lie in the perturbed components",
        ),
    ] = 0.8

    @field_validator("sensitive", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """One column may come without a list around it; true is not a column."""
        columns = [value] if isinstance(value, str | int | np.integer) else value
        if isinstance(columns, list | tuple) and any(isinstance(column, bool) for column in columns):
            raise ValueError("true and false are not columns")
        return columns

    @model_validator(mode="after")
    def _share_needs_sensitive(self) -> Self:
        if (
            self.components != "sensitive"
            and self.sensitive_share != type(self).model_fields["sensitive_share"].default
        ):
            raise ValueError("sensitive_share goes with components='sensitive' only")
        return self

    def choose(self, shares: Array, sensitive: list[int]) -> list[int]:
        """Component numbers; `shares` is components x columns, the share of each column's variance."""
        count = shares.shape[0]
        if self.components == "sensitive":
            return self._carrying(shares, sensitive)
        if sensitive:
            raise ParameterError("sensitive: goes with components='sensitive' only", "set components='sensitive'")
        if self.components == "all":
            return list(range(count))
        if isinstance(self.components, int):
            if self.components > count:
                raise ParameterError(f"components: {self.components} asked, but there are {count}", "ask for fewer")
            return list(range(self.components))
        return self._listed(count)

    def _listed(self, count: int) -> list[int]:
        listed = list(self.components) if isinstance(self.components, tuple) else []
        if not listed:
            raise ParameterError("components: the list is empty", "name at least one component, counted from 0")
        if max(listed) >= count:
            raise ParameterError(
                f"components: there is no component {max(listed)}", f"they are counted from 0 to {count - 1}"
            )
        if len(set(listed)) < len(listed):
            raise ParameterError("components: a component is listed twice", "list each once")
        return listed

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
