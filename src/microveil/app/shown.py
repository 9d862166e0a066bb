"""What each of the five pages shows of a case, as plain data for the templates."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from microveil.app import told
from microveil.app.cases import ROLES, Candidate, Case
from microveil.app.deeds import default_role
from microveil.app.forms import controls
from microveil.catalogue import method_details, methods
from microveil.intake.kinds import KINDS, LABELS, NUMBERS

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
        "rules": told.rule_sentences(table["dictionary"]),
    }


def columns(case: Case, query: Query) -> dict[str, Any]:
    """Every column with its kind and role; every rule."""
    table, choices = case.table or {}, case.choices
    rows = []
    for column in table["columns"]:
        kind = choices.kinds.get(column["name"], column["kind"])
        rows.append({**column, "chosen": kind, "role": choices.roles.get(column["name"], default_role(kind))})
    off = choices.rules_off
    rules = [
        {"key": key, "sentence": sentence, "treatment": treatment, "on": off != ("all",) and key not in off}
        for key, (sentence, treatment) in told.rule_sentences(table["dictionary"]).items()
    ]
    return {"columns": rows, "kinds": KINDS, "roles": ROLES, "rules": rules, "rules_on": off != ("all",)}


def protect(case: Case, query: Query) -> dict[str, Any]:
    """The methods, and the parameters of the one that is chosen."""
    choices, known = case.choices, methods()
    advised = (case.advice or {}).get("method")
    order = list(dict.fromkeys([*([advised] if advised else []), *FIRST, *known]))
    strength, others = controls(choices.method, choices.params)
    return {
        "methods": [{"id": name, "summary": known[name]} for name in order if name in known],
        "near": len({*FIRST, advised} - {None}),
        "details": method_details(choices.method),
        "strength": strength,
        "controls": others,
        "advice": case.advice,
        "advised": advised or FIRST[0],
    }


def compare(case: Case, query: Query) -> dict[str, Any]:
    """The candidates side by side, and one of them in full."""
    runs = case.candidates
    asked = query.get("run", case.choices.chosen)
    run = next((one for one in runs if one.id == asked), runs[-1])
    cards = [
        {"run": one, "light": told.light(one), "use": told.usefulness(one), "set": dict(one.choices.params)}
        for one in runs
    ]
    return {
        "cards": cards,
        "run": run,
        "light": told.light(run),
        "names": list(run.result["points"].get("original", {})),
    }


def release(case: Case, query: Query) -> dict[str, Any]:
    """The chosen candidate with its files, and the lines that make it again."""
    run = next((one for one in case.candidates if one.id == case.choices.chosen), case.candidates[-1])
    newest = case.candidates[-1]
    refused = newest if not newest.result["written"] else None
    return {
        "run": run,
        "light": told.light(run),
        "refused": refused,
        "files": {name: path.stat().st_size for name, path in files(run).items() if path.is_file()},
        "in_python": told.said_in_python(case, run),
        "in_the_shell": told.said_to_the_shell(case, run),
        "output": run.output,
    }


def table(case: Case, query: Query) -> dict[str, Any]:
    """The table that was made last, as a grid; and what it takes to make one."""
    found, described = case.grid, case.table or {}
    labels = [c["name"] for c in described["columns"] if c["kind"] in LABELS]
    numbers = [c["name"] for c in described["columns"] if c["kind"] in NUMBERS]
    if found is None:
        return {"labels": labels, "numbers": numbers, "found": None}
    commands, made = told.table_to_the_shell(case), found["file"].is_file()
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
    names = [run.output, told.REPORT, told.PUBLIC, told.RECIPE, told.RULES, told.POLICY]
    twins = [str(Path(name).with_suffix(".json")) for name in (told.REPORT, told.PUBLIC)]
    return {name: run.folder / name for name in [*names, *twins]}


def everything(run: Candidate) -> bytes:
    """What can be handed on, in one file; the internal report stays, because it has the seed."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, path in files(run).items():
            if path.is_file() and not name.startswith(Path(told.REPORT).stem):
                bundle.write(path, name)
    return packed.getvalue()
