"""The columns of a table that a study is about, and how sensitive ones go with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from microveil.core.errors import ParameterError
from microveil.core.table import Matrix
from microveil.intake.roles import ColumnId, named, resolve_roles
from microveil.io.frames.dataframes import open_frame
from microveil.measures.utility.dependence import between_correlation, within_correlation


def numeric_columns(data: Any) -> list[str]:
    """The columns of numbers, by name."""
    frame = open_frame(data)
    return [name for name in frame.names if frame.is_numeric(name)]


def protected_columns(data: Any, roles: Mapping[str, Any]) -> list[str]:
    """The columns that `protect` would protect, given the roles of others."""
    frame = open_frame(data)
    return list(resolve_roles({name: frame.is_numeric(name) for name in frame.names}, **roles).confidential)


def correlation_structure(
    data: Any, sensitive: Sequence[ColumnId], others: Sequence[str] | None = None
) -> tuple[float, float]:
    """Mean absolute correlations between sensitive and other columns, and among the others (eq. 6 and 7).

    `others` are the columns to consider, by default all numeric ones.
    """
    frame = open_frame(data)
    chosen = named(dict.fromkeys(frame.names, True), "sensitive", sensitive)
    names = [name for name in numeric_columns(data) if others is None or name in (*others, *chosen)]
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not numeric", "name columns of numbers")
    table = Matrix([frame.numbers(name) for name in names])
    places = [names.index(name) for name in chosen]
    found = (measure(table, table, sensitive=places).value for measure in (between_correlation, within_correlation))
    return next(found), next(found)
