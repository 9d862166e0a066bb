"""What each of the five pages shows of a case, as plain data for the templates."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from microveil.app import views
from microveil.app.actions import default_role
from microveil.app.cases import ROLES, Candidate, Case
from microveil.app.forms import controls
from microveil.catalogue import method_details, methods
from microveil.core.errors import DataError, ParameterError
from microveil.intake.kinds import KINDS, LABELS, NOT_COMPUTED_WITH, NUMBERS, TIMES, ColumnKind
from microveil.intake.roles import Roles
from microveil.intake.treatment import check_protectable
from microveil.intake.unit_rules import PLACE, SIZE
from microveil.methods import method_named

Query = Mapping[str, str]

FIRST = ("veil", "rank_swap", "noise", "microaggregate", "ipso", "pca")
"""Methods that are shown beside the recommended one; the others follow."""


def data(case: Case, query: Query) -> dict[str, Any]:
    """How the file was read, its first rows, and what was found."""
    table = case.table or {}
    kinds = [column["kind"] for column in table["columns"]]
    return {
        "table": table,
        "counts": {kind: kinds.count(kind) for kind in KINDS if kind in kinds},
        "left_out": [c["name"] for c in table["columns"] if default_role(c["kind"]) == "drop"],
        "codes": {c["name"]: c["special_codes"] for c in table["columns"] if c["special_codes"]},
        "rules": views.rule_sentences(table["dictionary"]),
    }


def columns(case: Case, query: Query) -> dict[str, Any]:
    """Every column with its kind and role; every rule."""
    table, choices = case.table or {}, case.choices
    off = choices.rules_off
    follows = {} if off == ("all",) else {rule["column"]: rule for rule in table["relations"]["follows"]}
    rows = []
    for column in table["columns"]:
        name = column["name"]
        kind = choices.kinds.get(name, column["kind"])
        rule = follows.get(name, {}) if f"columns:{name}" not in off else {}
        row = {**column, "chosen": kind, "role": choices.roles.get(name, default_role(kind))}
        # How many rows a unit has, and which of them this one is, nobody changes: it is in clear.
        rows.append({**row, "computed": bool(rule), "counted": rule.get("part", "") in (SIZE, PLACE)})
    rules = [
        {"key": key, "sentence": sentence, "treatment": treatment, "on": off != ("all",) and key not in off}
        for key, (sentence, treatment) in views.rule_sentences(table["dictionary"]).items()
    ]
    return {"columns": rows, "kinds": KINDS, "roles": ROLES, "rules": rules, "rules_on": off != ("all",)}


def protect(case: Case, query: Query) -> dict[str, Any]:
    """The methods, and the parameters of the one that is chosen."""
    choices, known = case.choices, methods()
    advised = (case.advice or {}).get("method")
    against = _refusals(case, [*known])
    near = [name for name in dict.fromkeys([advised, *FIRST]) if name in known and name not in against]
    order = [*near, *sorted((name for name in known if name not in near), key=lambda name: name in against)]
    strength, others = controls(choices.method, choices.params)
    return {
        "methods": [{"id": name, "summary": known[name], "against": against.get(name, "")} for name in order],
        "near": len(near),
        "details": method_details(choices.method),
        "strength": strength,
        "controls": others,
        "advice": case.advice,
        "advised": advised or FIRST[0],
    }


def _refusals(case: Case, names: Sequence[str]) -> dict[str, str]:
    """The methods that cannot protect this file as its columns are, and why."""
    rows = columns(case, {})["columns"]
    kinds = {row["name"]: ColumnKind(row["chosen"]) for row in rows if row["role"] == "protect"}
    labels = tuple(name for name, found in kinds.items() if found.kind in LABELS)
    roles = Roles(tuple(name for name, found in kinds.items() if found.kind in (*NUMBERS, *TIMES)), labels=labels)
    found = {}
    for name in names:
        try:
            check_protectable(method_named(name).plan({}), roles, kinds)
        except DataError as error:
            found[name] = error.problem.removeprefix(f"{name} ")
        except ParameterError:  # it needs settings of its own, which the form asks for
            continue
    return found


def compare(case: Case, query: Query) -> dict[str, Any]:
    """The candidates side by side, and one of them in full."""
    runs = case.candidates
    asked = query.get("run", case.choices.chosen)
    run = next((one for one in runs if one.id == asked), runs[-1])
    cards = [
        {"run": one, "light": views.light(one), "use": views.usefulness(one), "set": dict(one.choices.params)}
        for one in runs
    ]
    numbered = {c["name"] for c in (case.table or {})["columns"] if c["kind"] in NOT_COMPUTED_WITH}
    return {
        "cards": cards,
        "run": run,
        "light": views.light(run),
        "names": sorted(
            (name for name in run.result["points"].get("original", {}) if name not in numbered),
            key=lambda name: name in run.result["in_clear"],  # what is protected has something to show
        ),
    }


def release(case: Case, query: Query) -> dict[str, Any]:
    """The chosen candidate with its files, and the lines that make it again."""
    run = next((one for one in case.candidates if one.id == case.choices.chosen), case.candidates[-1])
    newest = case.candidates[-1]
    refused = newest if not newest.result["written"] else None
    return {
        "run": run,
        "light": views.light(run),
        "refused": refused,
        "files": {name: path.stat().st_size for name, path in files(run).items() if path.is_file()},
        "in_python": views.python_code(case, run),
        "in_the_shell": views.shell_command(case, run),
        "output": run.output,
    }


def table(case: Case, query: Query) -> dict[str, Any]:
    """The table that was made last, as a grid; and what it takes to make one."""
    found, described = case.grid, case.table or {}
    labels = [c["name"] for c in described["columns"] if c["kind"] in LABELS]
    numbers = [c["name"] for c in described["columns"] if c["kind"] in NUMBERS]
    if found is None:
        return {"labels": labels, "numbers": numbers, "found": None}
    commands, made = views.table_commands(case), found["file"].is_file()
    return {"labels": labels, "numbers": numbers, "found": found, "commands": commands, "made": made}


PAGES: dict[str, Callable[[Case, Query], dict[str, Any]]] = {
    "data": data,
    "columns": columns,
    "protect": protect,
    "compare": compare,
    "release": release,
    "table": table,
}


def files(run: Candidate) -> dict[str, Path]:
    """The files of a run that can be kept, by name."""
    names = [run.output, views.REPORT, views.PUBLIC, views.RECIPE, views.RULES, views.POLICY]
    twins = [str(Path(name).with_suffix(".json")) for name in (views.REPORT, views.PUBLIC)]
    return {name: run.folder / name for name in [*names, *twins]}


def everything(run: Candidate) -> bytes:
    """What can be handed on, in one file; the internal report stays, because it has the seed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, path in files(run).items():
            if path.is_file() and not name.startswith(Path(views.REPORT).stem):
                bundle.write(path, name)
    return packed.getvalue()
