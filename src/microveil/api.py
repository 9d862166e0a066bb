"""The functions of the package. This is the only place where the rooms are wired together."""

from __future__ import annotations

import copy
import dataclasses
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from microveil import account
from microveil.core.errors import DataError, ParameterError, one_of
from microveil.core.evidence import evidence
from microveil.core.measure import Measure
from microveil.core.results import Release
from microveil.core.rng import Streams
from microveil.core.roles import Choice, ColumnId, Roles, named, resolve_roles
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.data.describe import Description, describe_table
from microveil.data.files import check_target, read_table, write_table
from microveil.data.frames import Frame, open_frame
from microveil.data.intake import Intake, Rules, take_in
from microveil.engines import ENGINES, Outcome, Progress, run
from microveil.methods import DEFAULT_METHOD, METHODS, Plan, method_named
from microveil.risk import dbrl, leakage_distribution

__all__ = [
    "DEFAULT_METHOD",
    "Description",
    "Progress",
    "check_target",
    "describe",
    "example_file",
    "leakage_distribution",
    "method_details",
    "methods",
    "protect",
    "quick_risk",
    "read_table",
    "write_table",
]


def protect(
    data: Any,
    method: str = DEFAULT_METHOD,
    *,
    confidential: Choice = None,
    public: Choice = None,
    strata: Choice = None,
    weight: ColumnId | None = None,
    seed: int | None = None,
    rules: Rules = "infer",
    engine: str = "auto",
    progress: Progress | None = None,
    **params: Any,
) -> Release:
    """Protect the confidential columns of a table.

    Args:
        data: a numpy array, a pandas or polars DataFrame or a pyarrow Table; it is not changed.
        method: the id of a method; `methods()` lists them.
        confidential: columns to protect, by name (by number for arrays); by default all numeric columns.
        public: columns that stay as they are and are regressed on, so that their relations to the confidential
            ones stay too.
        strata: columns whose groups are protected one by one; means and covariances are then kept in each.
        weight: the column of survey weights; the moments that are kept are then weighted ones.
        seed: a whole number for a result that can be repeated; by default each run differs. Keep it secret.
        rules: "infer" finds special codes such as -9 and leaves them alone, and finds sums, ratios and the values a
            column can have; None treats every number as a value; or a dictionary of the columns (dict or file).
        engine: "auto" or "memory".
        progress: called with the name of the step and the share done.
        **params: the method's parameters; `microveil methods ID` lists them.
    """
    _check_call(seed, engine)
    plan = method_named(method).plan(params)
    frame = open_frame(data)
    numeric = {name: frame.is_numeric(name) for name in frame.names}
    if confidential is None:
        _check_nothing_slips_through(frame)
    roles = resolve_roles(numeric, confidential=confidential, public=public, strata=strata, weight=weight)
    tell = progress or (lambda *_: None)
    with single_threaded_blas():
        tell("reading columns", 0.0)
        intake = take_in(frame, roles, rules)
        _check_fits(plan, intake)
        streams = Streams.from_seed(None if seed is None else int(seed), intake.look.fingerprint)
        outcome = run(
            plan,
            intake.table,
            intake.look,
            streams,
            sensitive=_sensitive(plan, frame, intake),
            known=intake.known,
            progress=tell,
        )
        settings = _settings(plan, roles, rules, engine)
        release = _release(plan, frame, roles, intake, outcome, settings, streams.seed)
    tell("done", 1.0)
    return release


def describe(data: Any) -> Description:
    """Columns, domains, special codes, missing cells and linear rules of a table, without any of its values."""
    return describe_table(open_frame(data))


def methods() -> dict[str, str]:
    """The methods: id and one line."""
    return {method.id: method.summary for method in METHODS.values()}


def method_details(name: str) -> dict[str, Any]:
    """A method with its paper and all its parameters, as declared."""
    method = method_named(name)
    return {
        "id": method.id,
        "summary": method.summary,
        "reference": method.reference,
        "parameters": [
            {
                "perturb": group.perturb,
                "summary": group.summary,
                "reference": group.reference,
                "parameters": [dataclasses.asdict(parameter) for parameter in group.parameters],
            }
            for group in method.parameters()
        ],
    }


def quick_risk(original: Any, release: Release) -> tuple[Measure, Measure]:
    """Linkage of the original file with itself, and with the release: the first risk figure anyone asks for."""
    names = [str(name) for name in release.settings["confidential"]]
    before, after = (
        Matrix([frame.numbers(name) for name in names]) for frame in (open_frame(original), open_frame(release.data))
    )
    return dbrl(before, before, seed=release.seed), dbrl(before, after, seed=release.seed)


def example_file() -> Path:
    """The bundled business survey: 1,200 invented firms with what real files have."""
    return Path(__file__).parent / "examples" / "business_survey.csv"


def _check_call(seed: int | None, engine: str) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ParameterError("seed: must be a whole number of at least 0", "leave it out for a fresh one")
    if engine not in ENGINES:
        raise ParameterError(f"engine: '{engine}' is unknown", f"it is {one_of(ENGINES)}")


def _check_nothing_slips_through(frame: Frame) -> None:
    """A column of amounts that was read as text would be released in clear, and nobody would notice."""
    for name in frame.names:
        if frame.looks_numeric(name):
            raise DataError(
                f"column '{name}' is text, but most of its cells look like numbers (decimal commas, '<5'?)",
                "turn them into numbers, or name the columns to protect with confidential",
            )


def _check_fits(plan: Plan, intake: Intake) -> None:
    """Is there enough to protect, and do the parameters fit the table?"""
    table, needed = intake.table, METHODS[plan.method].minimum_columns
    names = table.confidential_names
    if len(names) < needed:
        raise DataError(
            f"confidential: column '{names[0]}' is alone, and {plan.method} needs at least {needed} columns",
            "one column has no components: its values would come back in another order; add columns",
        )
    if not any(j >= table.public for j in intake.look.varying()):
        raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
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


def _sensitive(plan: Plan, frame: Frame, intake: Intake) -> list[int]:
    """Sensitive columns by their number among the confidential ones."""
    names = intake.table.confidential_names
    chosen = named(dict.fromkeys(frame.names, True), "sensitive", plan.select.sensitive_columns)
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not confidential", "name protected columns only")
    return [names.index(name) for name in chosen]


def _release(
    plan: Plan, frame: Frame, roles: Roles, intake: Intake, outcome: Outcome, settings: dict[str, Any], seed: int
) -> Release:
    """Measure what came out, and put it into a frame of the kind that came in."""
    table = intake.table
    names = table.confidential_names
    stored = [frame.as_stored(name, column) for name, column in zip(names, outcome.columns, strict=True)]
    rounded = any(new is not old for new, old in zip(stored, outcome.columns, strict=True))
    for name, column in zip(names, stored if rounded else (), strict=rounded):
        if np.isinf(column).any():
            raise DataError(f"column '{name}' does not fit its type after protection", "convert it to float64 first")
    outcome = dataclasses.replace(outcome, columns=stored)
    proof = evidence(table, stored, intake.present, intake.look.moments)
    kept = account.kept(plan, intake, outcome, proof)
    dose = account.doses(plan, intake, outcome, proof)
    changed = {name: None if hole is None else ~hole for name, hole in intake.holes.items()}
    return Release(
        data=frame.rebuilt(dict(zip(names, stored, strict=True)), changed),
        method=plan.method,
        kind=plan.kind(outcome.untouched),
        kept=kept,
        kept_on_average=account.kept_on_average(plan, intake, outcome),
        dose=dose,
        warnings=account.remarks(plan, frame, roles, intake, outcome, kept, dose, rounded=rounded),
        rules=account.rules(intake, outcome),
        components=account.component_table(outcome),
        rows=table.count,
        leakage=account.leakage(plan, intake, outcome),
        settings=settings,
        seed=seed,
        writer=_write_report,
    )


def _settings(plan: Plan, roles: Roles, rules: Rules, engine: str) -> dict[str, Any]:
    """What a recipe holds: everything but the seed."""
    parameters = {name: list(value) if isinstance(value, tuple) else value for name, value in plan.parameters.items()}
    return {
        "method": plan.method,
        "confidential": list(roles.confidential),
        "public": list(roles.public),
        "strata": list(roles.strata),
        "weight": roles.weight,
        "rules": "none" if rules is None else str(rules) if isinstance(rules, Path) else copy.deepcopy(rules),
        "engine": engine,
        "parameters": parameters,
    }


def _write_report(release: Release, path: str | PathLike[str], audience: str) -> None:
    from microveil.report import write_report

    write_report(release, Path(path), audience)
