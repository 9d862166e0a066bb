"""The process that works for the app: it reads one task from standard input, says how far it is, and ends.

It calls what Python and the command line call. What it says goes through a channel of its own: whatever libraries
print, which may quote data, goes nowhere.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

Tell = Callable[[str, float | None], None]
Task = Mapping[str, Any]

HEAD = 8
"""First rows that are shown."""

CLOUD = 600
"""Records of each file in a scatter plot."""

PROTECTING = 0.4
"""Share of the work that is done when the release is there and is going to be measured."""


def describe(task: Task, tell: Tell) -> dict[str, Any]:
    """What is in a file, and its first rows."""
    from microveil.catalogue import describe as describe_table
    from microveil.io.files.formats import ReadOptions
    from microveil.io.tables import FORMATS, read_table

    source = Path(task["source"])
    tell("reading the file", None)
    frame, file_format = read_table(source, ReadOptions(**task["reading"]))
    tell("looking at the columns", None)
    found = describe_table(frame)
    head = [["" if cell is None else str(cell)[:60] for cell in row] for row in frame.head(HEAD).rows()]
    return {
        **found.to_dict(),
        "dictionary": found.to_dictionary(),
        "names": frame.columns,
        "head": head,
        "read_as": file_format.description,
        "findings": list(file_format.findings),
        "reading": list(FORMATS[source.suffix.lower()].options),
        "sheets": _sheets(source),
    }


def _sheets(source: Path) -> list[str]:
    """The sheets of a workbook."""
    if source.suffix.lower() != ".xlsx":
        return []
    import openpyxl

    book = openpyxl.load_workbook(source, read_only=True)  # `read_table` has found nothing wrong with it
    names = [sheet.title for sheet in book.worksheets]
    book.close()
    return names


def protect(task: Task, tell: Tell) -> dict[str, Any]:
    """A release with its reports and its recipe, as `microveil protect` makes them."""
    from microveil.options import ProtectFile
    from microveil.workflow.job import Face, Job
    from microveil.workflow.protecting import protect as protect_job

    def report_step(step: str, share: float | None) -> None:
        if step == "done":
            return
        first, width = (PROTECTING, 0.96 - PROTECTING) if step.startswith("measuring") else (0.0, PROTECTING)
        tell(step, 0.96 if step == "writing" else None if share is None else first + width * share)

    files = {name: Path(task[name]) for name in ("report", "public_report", "recipe")}
    options = ProtectFile.checked({**task["options"], **files})
    done = protect_job(Job(Path(task["source"]), Path(task["output"]), options, task["params"]), Face(report_step))
    verdict = None if done.assessment is None else done.assessment.verdict
    return {
        "written": bool(done.written),
        "policy": None if verdict is None else verdict.to_dict(),
        "kind": done.release.kind,
        "warnings": list(done.release.warnings),
        "in_clear": list(done.release.in_clear),
        "points": _points(done.original, done.release.data) if done.written else {},
    }


def _points(original: Any, released: Any) -> dict[str, dict[str, list[Any]]]:
    """Columns of numbers of some records, before and after: for the eyes of the owner only."""
    if original is None or not hasattr(released, "columns"):  # a file that was streamed
        return {}
    names = [name for name in original.columns if name in released.columns]
    names = [name for name in names if original[name].dtype.is_numeric() and released[name].dtype.is_numeric()]
    step = max(1, len(original) // CLOUD)
    return {
        file: {name: table[name].gather_every(step).cast(float).to_list() for name in names}
        for file, table in (("original", original), ("released", released))
    }


def recommend(task: Task, tell: Tell) -> dict[str, Any]:
    """Advice on a method for a file."""
    from microveil.io.files.formats import ReadOptions
    from microveil.io.tables import read_table
    from microveil.options import Recommend
    from microveil.studies import recommend as recommended

    tell("reading the file", None)
    frame, _ = read_table(Path(task["source"]), ReadOptions(**task["reading"]))
    asked = {name: value for name, value in task["options"].items() if name in Recommend.model_fields}
    advice = recommended(frame, **asked, progress=tell).to_dict()
    return {name: advice[name] for name in ("method", "label", "parameters", "sure", "why", "reasons", "runners_up")}


def table(task: Task, tell: Tell) -> dict[str, Any]:
    """A table of counts or amounts with cells hidden, or with decimals in their place; and what an intruder derives."""
    from microveil.tables import workflow

    shared = {**task["options"], "source": Path(task["source"]), "overwrite": True}
    output = {**shared, "output": Path(task["output"])}
    filled: list[Any] = []
    if task["fill"]:
        place = Path("filled.html")
        made = workflow.fill_file(workflow.FillOptions.checked({**output, "seed": task["seed"], "report": place}), tell)
        filled = _grid(place)["rows"] if made.written else []
    else:
        made = workflow.suppress_file(workflow.SuppressOptions.checked(output), tell)
    report = {"report": Path(task["report"]), "whole": task["whole"]}
    audited = workflow.audit_file(workflow.AuditOptions.checked({**shared, **report}), tell)
    grid = _grid(Path(task["report"]))
    for row, beside in zip(grid["rows"], filled, strict=False):
        for cell, other in zip(row["cells"], beside["cells"], strict=True):
            if cell is not None:
                cell["filled"] = other["filled"]
    figures = {**made.figures, **audited.figures}
    return {"figures": figures, "failures": [made.failure, audited.failure], "grid": grid}


def _grid(report: Path) -> dict[str, Any]:
    """The table as the twin of a report has it."""
    found: dict[str, Any] = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))["grid"]
    return found


def for_raters(task: Task, tell: Tell) -> dict[str, Any]:
    """A session for raters, opened or made of candidates; or the scores that follow from what they said."""
    from microveil.app import stimuli

    what = {"panel": stimuli.open_session, "session": stimuli.make_session, "scores": stimuli.score}
    return what[task["task"]](task, tell)


TASKS: Mapping[str, Callable[[Task, Tell], dict[str, Any]]] = {
    "describe": describe,
    "protect": protect,
    "recommend": recommend,
    "table": table,
    **dict.fromkeys(("panel", "session", "scores"), for_raters),
}


def main() -> None:
    """Load what takes long, wait for a task, do it, say what came of it."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    _load()
    line = sys.stdin.readline()
    if line:
        threading.Thread(target=_end_with_the_app, daemon=True).start()
        task = json.loads(line)
        os.chdir(task["folder"])
        _say(channel, _answer(task, channel))
    channel.close()
    _end()


def _load() -> None:
    """The libraries that every task needs."""
    import polars as pl  # noqa: F401 - only to have it

    import microveil.report
    import microveil.workflow.protecting  # noqa: F401 - only to have it loaded


def _answer(task: Task, channel: TextIO) -> dict[str, Any]:
    """What came of a task: the result, or a sentence that says what went wrong and never quotes data."""
    from microveil.core.errors import MicroveilError
    from microveil.report.material import strict

    def tell(step: str, share: float | None) -> None:
        _say(channel, {"step": step, "share": share})

    try:
        return {"done": strict(TASKS[task["task"]](task, tell))}
    except MicroveilError as error:
        return {"failed": str(error)}
    except MemoryError:
        return {"failed": "not enough memory; use fewer columns or a machine with more"}
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return {"failed": f"internal fault: {type(error).__name__} at {where}; please report it"}


def _say(channel: TextIO, content: Mapping[str, Any]) -> None:
    channel.write(json.dumps(content) + "\n")
    channel.flush()


def _end_with_the_app() -> None:
    """When the app is gone, however it went, its end of standard input is closed: nobody waits for the work."""
    sys.stdin.read()
    _end()


def _end() -> None:
    """End this process, and those that it has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main()
