"""What forms do to a case: each takes the case and what was typed, and says which step is shown next."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from microveil.app.cases import ROLES, Candidate, Case
from microveil.app.work import WorkerPool
from microveil.core.errors import ParameterError

Form = Mapping[str, str]


def step_of(case: Case) -> str:
    """Where a case is: the first step that has something to decide."""
    return "data" if case.table is None else "compare" if case.candidates else "columns"


def describe(case: Case, workers: WorkerPool) -> None:
    """Look at the file as it is to be read."""
    from microveil.app.cases import reading_key

    reading = dict(case.choices.reading)
    task = {"task": "describe", "source": case.name, "reading": reading}
    case.work = workers.begin(
        "Reading the file", task, case.folder, lambda found: case.described.update({reading_key(reading): found})
    )


def read_otherwise(case: Case, form: Form, workers: WorkerPool) -> str:
    """Read the file in another way."""
    from microveil.app.forms import reading_options

    case.decide("how the file is read", reading=reading_options(form), kinds={}, roles={}, rules_off=())
    if case.table is None:
        describe(case, workers)
    return "data"


def set_columns(case: Case, form: Form, workers: WorkerPool) -> str:
    """Kinds and roles of columns, and which rules hold."""
    from microveil.app.views import rule_sentences
    from microveil.intake.kinds import KINDS

    table = _table(case)
    kinds, roles = {}, {}
    for number, column in enumerate(table["columns"]):
        kind, role = form.get(f"kind:{number}", ""), form.get(f"role:{number}", "")
        if kind in KINDS and kind != column["kind"]:
            kinds[column["name"]] = kind
        if role in ROLES and role != default_role(kinds.get(column["name"], column["kind"])):
            roles[column["name"]] = role
    for role in ("weight", "unit"):
        if sum(given == role for given in roles.values()) > 1:
            raise ParameterError(f"{role}: only one column can have this role", "choose one of them")
    known = rule_sentences(table["dictionary"])
    off = tuple(key for key in known if f"rule:{key}" not in form)
    off = ("all",) if "rules" not in form else off
    case.decide("columns and rules", kinds=kinds, roles=roles, rules_off=off)
    return "protect" if form.get("next") else "columns"


def default_role(kind: str) -> str:
    """What becomes of a column of a kind if nobody says anything."""
    return "drop" if kind in ("identifier", "free text") else "protect"


def protect(case: Case, form: Form, workers: WorkerPool) -> str:
    """Choose a method and its parameters; and make a release, or ask for advice, if that was the button."""
    from microveil.app.forms import typed
    from microveil.methods import method_named

    method = method_named(form.get("method", case.choices.method)).id
    if method != case.choices.method and form.get("action") == "choose":
        case.decide(f"method {method}", method=method, params={})
        return "protect"
    params = typed(method, form)
    seed = _seed(form, case)
    case.decide(f"settings of {method}", method=method, params=params, seed=seed)
    if form.get("action") == "advice":
        advise(case, workers)
    elif form.get("action") == "run":
        make_release(case, workers)
        return "compare"
    return "protect"


def _seed(form: Form, case: Case) -> int:
    text = form.get("seed", "").strip()
    if not text:
        return case.choices.seed
    if not text.isdecimal() or len(text) > 18:
        raise ParameterError("seed: must be a whole number of at most 18 digits", "leave it as it was")
    return int(text)


def advise(case: Case, workers: WorkerPool) -> None:
    """Have all methods measured on the file."""
    from microveil.app.views import rules_option

    options = {**case.choices.options(_table(case)), **rules_option(case.choices)}
    task = {"task": "recommend", "source": case.name, "reading": dict(case.choices.reading), "options": options}
    if options.get("rules"):
        _write_rules(case, case.folder)

    def done(found: dict[str, Any]) -> None:
        case.advice = found

    case.work = workers.begin("Trying methods on the file", task, case.folder, done)


def take_advice(case: Case, form: Form, workers: WorkerPool) -> str:
    """Set the method and its parameters as advised."""
    if case.advice and case.advice["method"]:
        from microveil.options import Settings

        given = case.advice["parameters"]
        params = {name: value for name, value in given.items() if name not in Settings.model_fields}
        case.decide("the advice", method=case.advice["method"], params=params)
    return "protect"


def make_release(case: Case, workers: WorkerPool) -> None:
    """A candidate, from what was decided."""
    from microveil.app import views

    choices = case.choices
    key, folder = case.new_run_folder()
    extension = Path(case.name).suffix
    output = f"{Path(case.name).stem}-released{'.csv' if extension.lower() == '.sas7bdat' else extension}"
    options = {**choices.options(_table(case)), **views.rules_option(choices)}
    if options.get("rules"):
        _write_rules(case, folder)
    if choices.limit is not None:
        limits = f"[limits]\nworst_attack = {{at_most = {choices.limit!r}}}\n"
        (folder / views.POLICY).write_text(f'[policy]\nname = "limit"\nversion = 1\n\n{limits}', encoding="utf-8")
        options["policy"] = views.POLICY
    files = {"report": views.REPORT, "public_report": views.PUBLIC, "recipe": views.RECIPE}
    task = {"task": "protect", "source": case.name, "output": output, "options": options, **files}
    task["params"] = dict(choices.params)

    def done(result: dict[str, Any]) -> None:
        twin = folder / Path(views.REPORT).with_suffix(".json")
        figures = json.loads(twin.read_text(encoding="utf-8")) if twin.is_file() else {}
        with case.guard:
            case.runs[key] = Candidate(key, len(case.runs) + 1, folder, output, choices, result, figures)
            label = f"candidate {len(case.runs)}"
            case.decide(label, runs=(*case.choices.runs, key), chosen=key if result["written"] else case.choices.chosen)

    case.work = workers.begin("Protecting the file", task, folder, done)


def _write_rules(case: Case, folder: Path) -> None:
    from microveil.app import views
    from microveil.io.config_files import toml_text

    content = views.dictionary_without(_table(case)["dictionary"], case.choices.rules_off)
    (folder / views.RULES).write_text(toml_text(content), encoding="utf-8")


def compare(case: Case, form: Form, workers: WorkerPool) -> str:
    """Choose a candidate for the release, or put one away."""
    run = form.get("run", "")
    if run not in case.choices.runs:
        return "compare"
    if form.get("action") == "remove":
        left = tuple(one for one in case.choices.runs if one != run)
        chosen = case.choices.chosen if case.choices.chosen != run else (left[-1] if left else "")
        case.decide(f"putting candidate {case.runs[run].number} away", runs=left, chosen=chosen)
        return "compare" if left else "protect"
    case.decide(f"choosing candidate {case.runs[run].number}", chosen=run)
    return "release" if form.get("action") == "release" else "compare"


def release(case: Case, form: Form, workers: WorkerPool) -> str:
    """Set a limit on the worst attack, or none, and make the chosen release anew under it."""
    text = form.get("limit", "").strip().replace(",", ".")
    try:
        limit = float(text) / 100 if text else None
    except ValueError:
        limit = -1.0
    if limit is not None and not 0 <= limit <= 1:
        raise ParameterError("limit: must be a number of per cent from 0 to 100", "leave it empty for no limit")
    chosen = case.runs.get(case.choices.chosen)
    if chosen is None or chosen.choices.limit == limit:
        return "release"
    again = ("reading", "kinds", "roles", "rules_off", "method", "params", "seed")
    case.decide("the policy", limit=limit, **{name: getattr(chosen.choices, name) for name in again})
    make_release(case, workers)
    return "release"


def make_table(case: Case, form: Form, workers: WorkerPool) -> str:
    """Count the records, or add up a column, by one or two others; hide small cells, and attack what is left."""
    names, least = _table(case)["names"], form.get("least", "").strip()
    dimensions = list(dict.fromkeys(form[one] for one in ("down", "across") if form.get(one) in names))
    value = form.get("value") if form.get("value") in names else None
    if not dimensions or not least.isdecimal() or len(least) > 9:
        raise ParameterError("table: it needs a column, and a whole number of records", "choose them")
    few: dict[str, Any] = {"contributors": "rows", "min_contributors": int(least)}
    few = {"min_count": float(least)} if value is None else few
    if value is not None and form.get("dominance", "").strip():
        few["dominance"] = [form["dominance"].strip()]
    options = {"dimensions": dimensions, "value": value, **few}
    fill, whole = form.get("holes") == "fill", bool(form.get("whole"))
    task = {"task": "table", "source": case.name, "options": options, "fill": fill, "whole": whole}
    task |= {"seed": case.choices.seed, "output": f"{Path(case.name).stem}-table.csv", "report": "table-report.html"}
    key, folder = case.new_run_folder()

    def done(found: dict[str, Any]) -> None:
        file = folder / str(task["output"])
        case.grids[key] = {**found, "asked": task, "file": file, "report": folder / str(task["report"])}
        case.decide("the table", table=key)

    case.work = workers.begin("Making the table", task, folder, done)
    return "table"


def _table(case: Case) -> dict[str, Any]:
    if case.table is None:
        raise ParameterError("the file has not been read yet", "go back to the first step")
    return case.table


def go_back(case: Case, form: Form, workers: WorkerPool, step: int = -1) -> str:
    """Take the last decision back; or, by a step of 1, decide it again."""
    case.move(step)
    return form.get("step", "") if case.table is not None else "data"


def cancel(case: Case, form: Form, workers: WorkerPool) -> str:
    """End the work on a case."""
    if case.work is not None:
        case.work.cancel()
        workers.warm()
    return form.get("step", "")


ACTIONS: dict[str, Callable[[Case, Form, WorkerPool], str]] = {
    "data": read_otherwise,
    "columns": set_columns,
    "protect": protect,
    "advice": take_advice,
    "compare": compare,
    "release": release,
    "table": make_table,
    "undo": go_back,
    "redo": partial(go_back, step=1),
    "cancel": cancel,
    "close": lambda *_: "",
}
"""By the last word of the address that a form is sent to."""
