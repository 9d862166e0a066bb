"""`microveil protect`, `run` and `demo`: what is typed becomes a job, and what came of it is shown."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from microveil.catalogue import describe, example_file
from microveil.cli.endings import point_of_no_return, say
from microveil.cli.shared import Screen, end
from microveil.cli.show import releases
from microveil.core.errors import MicroveilError
from microveil.intake.describe import Description
from microveil.io.locations import Place
from microveil.options import ProtectFile, Run
from microveil.workflow.job import Face, Job
from microveil.workflow.protecting import protect as protect_job
from microveil.workflow.recipes import job_from_recipe

MOST_DESCRIBED = 20_000_000
"""Cells up to which a file is described before it is protected; `microveil describe` does it for any."""


def protect(asked: ProtectFile, screen: Screen, source: Place, output: Place) -> None:
    """Protect the `source` into the `output`, as `asked`."""
    _protect(Job(source, output, asked, asked.parameters or {}), screen)


def run(asked: Run, screen: Screen, recipe: Path, source: Place | None, output: Place | None) -> None:
    """Protect a file as a recipe says; `source`, `output` and what is `asked` go before what it says."""
    _protect(job_from_recipe(recipe, asked.changed(Run.model_fields), source, output), screen)


def demo(asked: Any, screen: Screen) -> None:
    """Protect the bundled survey."""
    folder = asked.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MicroveilError(f"--folder: '{folder}' cannot be made ({error.strerror})", "name another") from None
    options = ProtectFile(
        protected_weight="weight",
        report=folder / "report-internal.html",
        public_report=folder / "report-public.html",
        recipe=folder / "recipe.toml",
        overwrite=True,
    )
    if not screen.as_json and not screen.quiet:
        releases.demo_begins(example_file())
    _protect(Job(example_file(), folder / "released.csv", options), screen)


def _protect(job: Job, screen: Screen) -> None:
    """Do a job, show what came of it, and end with the exit code of the policy."""
    described: list[Description] = []

    def began(frame: Any) -> None:
        private = job.options.epsilon is not None
        small = frame.count * len(frame.names) <= MOST_DESCRIBED
        if small and not screen.quiet and not private and job.options.rules == "infer":
            described.append(describe(frame))

    with screen.progress() as tell:
        reader = partial(screen.read, findings=False)
        face = Face(tell, reader, began, quick_risk=not screen.quiet, committing=point_of_no_return)
        done = protect_job(job, face)

    def content() -> dict[str, Any]:
        judged = {} if done.assessment is None else {"assessment": done.assessment.to_dict()}
        seen = {"described": described[0].to_dict()} if described else {}
        output = str(done.written[0]) if done.written else None
        account = releases.as_dict(done.release, done.risk)
        return {"output": output, **account, **judged, **seen, "read_as": done.read_as}

    def show() -> None:
        releases.in_clear(done.release)
        if described:
            releases.findings(described[0])
        releases.release(done.release, done.risk, done.assessment)

    # Only now: what cannot be printed must not undo what has been written.
    screen.answer(content, show, done.written)
    for line in done.release.for_owner * (not screen.quiet):  # no part of what is often kept or sent on
        say(f"for the owner only: {line}")
    end(done.assessment, "; nothing was written")
