"""`microveil protect`, `run` and `demo`: what is typed becomes a job, and what came of it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from microveil.catalogue import describe, example_file
from microveil.cli.endings import point_of_no_return
from microveil.cli.shared import end, print_json, progress, read
from microveil.cli.show import releases
from microveil.core.errors import MicroveilError
from microveil.intake.describe import Description
from microveil.io.locations import Place
from microveil.options import ProtectFile
from microveil.workflow.job import Face, Job
from microveil.workflow.protecting import protect as protect_job
from microveil.workflow.recipes import job_from_recipe

MOST_DESCRIBED = 20_000_000
"""Cells up to which a file is described before it is protected; `microveil describe` does it for any."""


def protect(source: Place, output: Place, options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Protect a file as the options say."""
    given = {name: value for name, value in options.items() if name != "parameters"}
    job = Job(source, output, ProtectFile.checked(given), options["parameters"] or {})
    _protect(job, as_json=as_json, quiet=quiet)


def run(
    recipe: Path, source: Place | None, output: Place | None, options: Mapping[str, Any], *, as_json: bool, quiet: bool
) -> None:
    """Protect a file as a recipe says; source, output and options that are given go before what it says."""
    _protect(job_from_recipe(recipe, options, source, output), as_json=as_json, quiet=quiet)


def demo(folder: Path, *, as_json: bool = False, quiet: bool = False) -> None:
    """Protect the bundled survey."""
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
    if not as_json and not quiet:
        releases.demo_begins(example_file())
    _protect(Job(example_file(), folder / "released.csv", options), as_json=as_json, quiet=quiet)


def _protect(job: Job, *, as_json: bool, quiet: bool) -> None:
    """Do a job, show what came of it, and end with the exit code of the policy."""
    described: list[Description] = []

    def began(frame: Any) -> None:
        if (
            quiet
            or job.options.epsilon is not None
            or job.options.rules != "infer"
            or frame.count * len(frame.names) > MOST_DESCRIBED
        ):
            return
        described.append(describe(frame))

    with progress(quiet) as tell:
        face = Face(tell, partial(_read, quiet), began, quick_risk=not quiet, committing=point_of_no_return)
        done = protect_job(job, face)
    # Only now: what cannot be printed must not undo what has been written.
    if as_json:
        judged = {} if done.assessment is None else {"assessment": done.assessment.to_dict()}
        seen = {"described": described[0].to_dict()} if described else {}
        output = str(done.written[0]) if done.written else None
        account = releases.as_dict(done.release, done.risk)
        print_json({"output": output, **account, **judged, **seen, "read_as": done.read_as})
    elif not quiet:
        releases.in_clear(done.release)
        if described:
            releases.findings(described[0])
        releases.release(done.release, done.risk, done.assessment, done.written)
    end(done.assessment, "; nothing was written")


def _read(quiet: bool, source: Place, reading: Any) -> tuple[Any, Any]:
    return read(source, quiet, reading, findings=False)
