"""What is refused before a table is protected: bad options, columns in clear, methods that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.errors import DataError, ParameterError, one_of
from microveil.engines import ENGINES
from microveil.engines.out_of_core import check_eligible
from microveil.intake.intake import Intake, Rules
from microveil.intake.roles import named
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.io.tables import read_table
from microveil.methods import METHODS, Plan
from microveil.options import PRIVATE, Protect
from microveil.perturb import LabelPerturbation

NEED_ALL_ROWS = ("strata", "unit", "keep_notes", "shuffle_rows", "epsilon", *PRIVATE)
"""Options that need all rows at once, which a stream and Spark never have."""

NO_EFFECT = "drop_identifiers has no effect any more, leave it out: identifiers are left out of a release by default"


def checked_seed(seed: Any) -> int | None:
    """The seed, which is a whole number of at least 0, or None."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ParameterError("seed: must be a whole number of at least 0", "leave it out for a fresh one")
    return None if seed is None else int(seed)


def check_engine_in_memory(engine: str) -> None:
    """A table in memory is protected there."""
    if engine not in ENGINES:
        raise ParameterError(f"engine: '{engine}' is unknown", f"it is {one_of(ENGINES)}")
    if engine not in ("auto", "memory"):
        raise ParameterError(f"engine: '{engine}' is not for a table in memory", "use protect_file, or engine='memory'")


def check_streams(plan: Plan, rules: Rules, engine: str = "stream") -> None:
    """Refuse a plan that needs all rows at once, for an engine that never has them."""
    check_eligible(plan, engine)
    if rules is not None and rules != "none" and not plan.promises_moments and not plan.needs_columns:
        exact = "" if "exact" in METHODS[plan.method].fixed else "exact=True (--set exact=true), "
        raise ParameterError(
            f"engine: '{engine}' cannot run {plan.method} with rules: values that a column cannot have are looked for "
            "in whole columns",
            f"use rules='none' (--rules none), {exact}or engine='memory' (--engine memory)",
        )


def check_hidden_numbers(frame: Frame, shown: Collection[str]) -> None:
    """Refuse numbers in columns of text and of other types, but for those that are `shown` for a reason.

    Cells of amounts that were read as text would be labels, and nobody would notice.
    """
    for name in frame.names:
        if name not in shown and frame.looks_numeric(name):
            raise DataError(
                f"column '{name}' is text, but most of its cells look like numbers (decimal commas, '<5'?)",
                "turn them into numbers, or name the columns to protect with confidential",
            )
    for name in frame.names:
        if name not in shown and frame.hides_numbers(name):
            raise DataError(
                f"column '{name}' holds numbers, but its type is none that is protected (categories, lists, ...)",
                "turn it into numbers or text, drop it, or name the columns to protect with confidential",
            )


def check_not_broken(broken: Collection[str], untouched: Collection[str]) -> None:
    """Refuse columns that begin as numbers and go on as something else, but for those that nothing happens to."""
    for name in broken:
        if name not in untouched:
            raise DataError(
                f"column '{name}' begins as numbers, but has cells further down that are none",
                "correct them, keep or drop the column, or leave it out of confidential",
            )


def label_options(method: str, perturb: LabelPerturbation, options: Protect) -> Protect:
    """The options of a method for labels, without those that mean nothing to it, on the columns its parameters name."""
    if options.unit:
        raise ParameterError(f"unit: {method} treats each row by itself", "leave it out, or use veil")
    if options.public:
        raise ParameterError(f"public: {method} knows no columns that others follow", "use keep, or strata")
    columns = perturb.columns
    if columns is None:
        return options
    if options.confidential is not None:
        given = options.confidential if isinstance(options.confidential, list | tuple) else [options.confidential]
        lacks = [str(name) for name in given if str(name) not in columns]
        if lacks:
            raise ParameterError(f"{method}: nothing is said of column '{lacks[0]}'", "say how it is to be recoded")
    return options.model_copy(update={"confidential": list(columns)})


def check_fits(plan: Plan, intake: Intake, *, has_others: bool = False) -> None:
    """Is there enough to protect, and do the parameters fit the table? Or has the release other columns besides?"""
    table, needed = intake.table, METHODS[plan.method].minimum_columns
    names = table.confidential_names
    if not any(j >= table.public for j in intake.profile.varying()) and not table.labels.names:
        raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
    if len(names) < needed and not (plan.protects_labels and (table.labels.names or has_others)):
        raise DataError(
            f"confidential: column '{names[0]}' is alone, and {plan.method} needs at least {needed} columns",
            "one column has no components: its values would come back in another order; add columns",
        )
    most = plan.decompose.most_columns
    if most is not None and len(names) > most:
        raise DataError(
            f"confidential: {plan.method} takes at most {most} columns, and there are {len(names)}",
            "use a method of components, such as pca, or protect some columns at a time",
        )
    if plan.given_draws and table.strata is not None:
        raise ParameterError(f"{next(iter(plan.given_draws))}: does not go with strata", "use one or the other")
    # Values that are exchanged between records until the moments return go by weighted ones.
    arranged = plan.maps_values and plan.marginals.exchange
    if table.weights is not None and not (plan.exact or arranged or plan.perturb.knows_weights):
        perturb = plan.parameters["perturb"]
        raise ParameterError(
            f"weight: perturb='{perturb}' keeps weighted moments only with exact=True",
            "use exact=True, or a method that redraws or keeps moments exactly",
        )


def sensitive_columns(plan: Plan, columns: Sequence[str], intake: Intake) -> list[int]:
    """Sensitive columns by their number among the confidential ones; `columns` are all names of the table."""
    names = intake.table.confidential_names
    chosen = named(columns, "sensitive", plan.select.sensitive_columns)
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not confidential", "name protected columns only")
    return [names.index(name) for name in chosen]


def with_groups_read(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters, with groups of labels read from the tables that they name: the label, and what it becomes."""
    groups = params.get("groups")
    if not isinstance(groups, Mapping):
        return params
    read = {}
    for name, given in groups.items():
        if isinstance(given, str | Path):
            table = open_frame(read_table(Path(given))[0])
            if len(table.names) < 2:
                raise DataError(f"groups: the table for column '{name}' has one column", "give labels and groups")
            rows = np.arange(table.count)
            given = dict(zip(*(table.words(column, rows) for column in table.names[:2]), strict=True))
        read[name] = given
    return {**params, "groups": read}
