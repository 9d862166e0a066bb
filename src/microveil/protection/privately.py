"""Protecting a table under differential privacy: what is declared, what is refused, and what may be published.

The data are read in one place (`Declared.read`) and asked in one (`measured`). Everything of the release but
`for_owner` follows from the call and from noisy answers.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.arrays import Index
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.threads import single_threaded_blas
from microveil.engines import Progress
from microveil.intake.roles import named
from microveil.io.dictionary import Dictionary, read_dictionary
from microveil.io.frames.dataframes import Frame
from microveil.methods import METHODS
from microveil.options import DEFAULT_METHOD, PRIVATE, Protect, ProtectFile
from microveil.private.arrangement import synthesised
from microveil.private.budget import COUNT_SHARE
from microveil.private.declared import Declared, declared_columns, units_of
from microveil.private.mechanism import Account
from microveil.private.targets import measured
from microveil.release.release import ComponentTable, Release
from microveil.report.reporter import Reporter

WEIGHTS = "weights are not used: declare their bounds and release them as a column, or drop them"
REFUSED = {
    "seed": "the noise is from the system's secure source, and whoever knew a seed could take it off: leave it out",
    "public": "no column can be released as it is: declare its levels or bounds",
    "strata": "groups that are found in the data are not private: declare them as levels of a column",
    "weight": WEIGHTS,
    "protected_weight": WEIGHTS,
    "keep": "no column can be released as it is: declare its levels or bounds",
    "keep_notes": "what is noted about a file is not protected",
    "shuffle_rows": "rows have no order to begin with: leave it out",
    "secret": "the noise is from the system's secure source: leave it out",
    "kinds": "bounds make a column an amount and levels a category: leave it out",
    "registry": "it compares the data with those of other releases: add up the ledgers of releases yourself",
    "drop_identifiers": "drop columns by name",
}
"""Options that epsilon does not go with, and why."""

REFUSED_FILES = {
    "policy": "whether figures of the data meet a limit must not decide what is released",
    "include_seed": "there is no seed",
}
"""Options for files that epsilon does not go with, and why."""

NAMED = ("confidential", "drop", "may_be_missing", "unit")
"""Options that name columns."""

MOST_NOISE = 1e6
"""Standard deviation of the noise on the number of rows above which a release could be of any size."""

COLUMN_RULES = {"minimum", "maximum", "step", "levels", "missing", "unit", "kind"}
"""What the dictionary may say of a column."""

NOT_TOLD = "nothing was measured against the original for this account: figures of it would not be private"


def check_private_file(options: ProtectFile) -> None:
    """Refuse options for files that epsilon does not go with."""
    for name in options.changed(REFUSED_FILES):
        raise ParameterError(f"{name}: does not go with epsilon", REFUSED_FILES[name])


def check_only_private(options: Protect) -> None:
    """Refuse options of differential privacy without epsilon, which would be ignored."""
    for name in options.changed(PRIVATE):
        raise ParameterError(f"{name}: goes with epsilon only", "give epsilon, or leave it out")


def protect_privately(whole: Frame, options: Protect, params: Mapping[str, Any], tell: Progress) -> Release:
    """The release of a table under differential privacy."""
    _check_options(options, params)
    columns = {role: named(whole.names, role, getattr(options, role)) for role in NAMED}
    declared = declared_columns(whole, options.model_copy(update=columns), _dictionary(options, whole.names))
    unit = columns["unit"]
    account = Account(
        float(options.epsilon or 0.0),
        options.delta,
        options.rows_per_unit or 1,
        f"unit ({unit[0]})" if unit else "record",
    )
    if options.rows is None and account.noise_sd(1.0, account.rho * COUNT_SHARE) > MOST_NOISE:
        raise ParameterError("epsilon: the number of rows would be noise", "give rows, or a larger epsilon")
    tell("reading columns", 0.0)
    rows, cut = _rows_of_units(whole, unit[0], account.contributions) if unit else (None, 0)
    with single_threaded_blas():
        records, unfit = declared.read(whole, rows)
        tell("measuring with noise", 0.1)
        targets = measured(records, account, partial(_check_delta, options.delta))
        tell("arranging", 0.4)
        released = options.rows or max(round(targets.count), 1)
        made = synthesised(targets, released, Streams.from_seed(None))
    tell("done", 1.0)
    method = METHODS[DEFAULT_METHOD]
    ledger = account.ledger(declared.void)
    return Release(
        data=declared.table(whole, made),
        method=DEFAULT_METHOD,
        release_type="synthetic",
        kept={},
        kept_on_average=(),
        dose={},
        warnings=[ledger.promise, NOT_TOLD],
        rules=[],
        components=ComponentTable((), np.empty(0), np.empty((0, 0)), np.empty((0, 0)), ()),
        rows=released,
        leakage=None,
        settings=_settings(options, declared),
        seed=None,
        writer=Reporter(None, method.summary, method.reference, [], [], {}),
        kinds={column.name: column.kind for column in declared.columns},
        ledger=ledger,
        for_owner=_for_owner(unfit, cut),
    )


def _check_options(options: Protect, params: Mapping[str, Any]) -> None:
    """Refuse what cannot be, or would have to look at the data."""
    epsilon, delta = options.epsilon, options.delta
    if epsilon is None or not epsilon > 0:
        raise ParameterError(
            "epsilon: must be a number above 0",
            "1 is common; more than 10 promises next to nothing, and inf (no noise) nothing",
        )
    if not 0 < delta < 1:
        raise ParameterError("delta: must be between 0 and 1", "1e-6 is common; it must be below 1 / rows")
    if options.method != DEFAULT_METHOD:
        raise ParameterError(f"epsilon: {options.method} has no proof", f"use {DEFAULT_METHOD}")
    for name in params:
        raise ParameterError(f"{name}: no parameter of {DEFAULT_METHOD} goes with epsilon", "leave it out")
    for name, given in options.changed(REFUSED).items():
        if not isinstance(given, list | tuple) or given:
            raise ParameterError(f"{name}: does not go with epsilon", REFUSED[name])
    if options.engine not in ("auto", "memory"):
        raise ParameterError(f"engine: '{options.engine}' does not go with epsilon", "use engine='memory'")
    for name in ("rows", "rows_per_unit"):
        given = getattr(options, name)
        if given is not None and given < 1:
            raise ParameterError(f"{name}: must be 1 at least", "leave it out, or give more")
    if (options.unit is None) != (options.rows_per_unit is None):
        raise ParameterError(
            "unit and rows_per_unit go together with epsilon", "say how many rows of a unit are used at most"
        )
    if options.rows is not None:
        _check_delta(delta, options.rows)
    for name, kind in (("bounds", "(low, high)"), ("levels", "[labels]")):
        given = getattr(options, name)
        if given is not None and not isinstance(given, Mapping):
            raise ParameterError(f"{name}: must be a dict of columns", f"write {name}={{'column': {kind}}}")


def _check_delta(delta: float, count: float) -> None:
    """With a delta of one over the number of records, to publish a random record would be allowed.

    There are as many units as records at most, so that this holds for them too.
    """
    if delta * count >= 1:
        raise ParameterError(
            "delta: must be below one over the number of records (declared, or counted with noise)", "use 1e-6 or less"
        )


def _dictionary(options: Protect, names: list[str]) -> Dictionary:
    """The dictionary; with epsilon it may describe single columns only."""
    rules = options.rules
    if rules is None or rules in ("infer", "none"):  # nothing is inferred
        return Dictionary()
    dictionary = read_dictionary(rules if isinstance(rules, Mapping | str | Path) else str(rules))
    dictionary.check_names(names)
    if dictionary.sums or dictionary.ratios or dictionary.orders or dictionary.impossible:
        raise ParameterError("rules: rules between columns are not kept with epsilon", "take them out")
    for name, entry in dictionary.columns.items():
        for said in entry.model_dump(exclude_defaults=True):
            if said not in COLUMN_RULES:
                raise ParameterError(f"rules: {said} of column '{name}' does not go with epsilon", "take it out")
    return dictionary


def _rows_of_units(frame: Frame, unit: str, most: int) -> tuple[Index, int]:
    """At most so many rows of each unit, drawn at random, and how many rows are left out; those of no unit all are.

    The draw goes by the label of a unit and its own rows: whatever is drawn, no other unit has a part in it.
    """
    rows_of: dict[str, list[int]] = {}
    for row, label in enumerate(units_of(frame, unit)):
        rows_of.setdefault(label, []).append(row)
    rows_of.pop("", None)
    salt, kept = secrets.token_bytes(16), list[int]()
    for label, rows in rows_of.items():
        kept += [row for _, row in sorted((hash((salt, label, at)), row) for at, row in enumerate(rows))[:most]]
    return np.array(kept, np.intp), frame.count - len(kept)


def _for_owner(unfit: Mapping[str, int], cut: int) -> list[str]:
    """What its owner should know of the data, and nobody else."""
    said = [
        f"column '{name}': {count} cells did not fit its bounds or levels" for name, count in unfit.items() if count
    ]
    said += [f"{cut} rows were left out: more than their unit may have, or without a unit"] * (cut > 0)
    return said


def _settings(options: Protect, declared: Declared) -> dict[str, Any]:
    """What a recipe holds: what was asked for, and nothing that was found."""
    fixed = {"confidential": declared.names, "public": [], "strata": [], "weight": None, "engine": options.engine}
    rules = options.rules
    fixed["rules"] = "none" if rules is None else str(rules) if isinstance(rules, Path) else rules
    return {**options.settings(), "method": DEFAULT_METHOD, **fixed, "delta": options.delta, "parameters": {}}
