"""Temporary: what studies and papers still ask for by this name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from microveil.assess import assess
from microveil.assessment.assessment import Assessment
from microveil.assessment.measuring import chosen as chosen_measures
from microveil.assessment.measuring import entries as measure_entries
from microveil.catalogue import example_file
from microveil.core.errors import ParameterError
from microveil.core.table import Matrix
from microveil.intake.roles import ColumnId, Roles, named, resolve_roles
from microveil.io.frames.dataframes import open_frame, table_like
from microveil.io.frames.fingerprint import fingerprint
from microveil.io.tables import read_table, write_table
from microveil.measures.risk import leakage_distribution
from microveil.measures.utility import between_correlation, within_correlation
from microveil.methods import method_named
from microveil.protection.in_memory import protect
from microveil.release.release import Release
from microveil.report import study_map

__all__ = ["assess", "chosen_measures", "example_file", "fingerprint", "leakage_distribution", "measure_entries"]
__all__ += ["protect", "read_table", "study_map", "write_table"]


def correlation_structure(
    data: Any, sensitive: Sequence[ColumnId], others: Sequence[str] | None = None
) -> tuple[float, float]:
    """Mean absolute correlations between sensitive and other columns, and among the others (eq. 6 and 7)."""
    frame = open_frame(data)
    names = [name for name in frame.names if frame.is_numeric(name)]
    if others is not None:
        beside = {*others, *named(dict.fromkeys(frame.names, True), "sensitive", sensitive)}
        names = [name for name in names if name in beside]
    chosen = named(dict.fromkeys(frame.names, True), "sensitive", sensitive)
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not numeric", "name columns of numbers")
    table = Matrix([frame.numbers(name) for name in names])
    places = [names.index(name) for name in chosen]
    found = (measure(table, table, sensitive=places).value for measure in (between_correlation, within_correlation))
    return next(found), next(found)


def numeric_columns(data: Any) -> list[str]:
    """The columns of numbers, by name."""
    frame = open_frame(data)
    return [name for name in frame.names if frame.is_numeric(name)]


def columns_by_role(data: Any, roles: Mapping[str, Any]) -> Roles:
    """The columns of a table by what they are to `protect`."""
    frame = open_frame(data)
    return resolve_roles({name: frame.is_numeric(name) for name in frame.names}, **roles)


def check_method(name: str, parameters: Mapping[str, Any]) -> None:
    """Is there such a method, and does it take these parameters?"""
    method_named(name).plan(parameters)


def draws_at_random(name: str, parameters: Mapping[str, Any]) -> bool:
    """Does the method give another release each time?"""
    return method_named(name).plan(parameters).perturb.random


def frame_maker(data: Any) -> Callable[[Mapping[str, list[Any]]], Any]:
    """Makes frames of the kind that the data have (polars for arrays)."""
    return partial(table_like, open_frame(data))


def assess_release(original: Any, release: Release, **options: Any) -> Assessment:
    """`assess` with the columns, rules and seed of a release."""
    settings = release.settings
    roles = {"confidential": settings["confidential"], "rules": settings["rules"]}
    return assess(original, release, **roles, seed=release.seed, **options)
