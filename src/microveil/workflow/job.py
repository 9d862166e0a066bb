"""A job: a file to protect, where the release goes, and what the caller wants to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microveil.assessment.assessment import Assessment
from microveil.assessment.policy import Verdict
from microveil.core.errors import ParameterError
from microveil.io.files.formats import ReadOptions
from microveil.io.locations import Place, file_of, own_file, place_from
from microveil.io.tables import check_target, read_table
from microveil.measures.base import Measure
from microveil.options import ProtectFile
from microveil.release.recipe import INFERRED, path_parameters
from microveil.release.release import Release
from microveil.storage.atomic import check_new, check_place
from microveil.storage.disk_columns import memory_in_bytes

Risk = tuple[Measure, Measure]
Tell = Callable[[str, float | None], None]
"""Takes the name of a step and the share done, None where nobody knows it."""

Reader = Callable[[Place, ReadOptions], tuple[Any, Any]]


@dataclass(frozen=True, repr=False)
class Face:
    """What the caller of a job wants to see while it runs."""

    progress: Tell = lambda *_: None
    read: Reader = read_table
    """Reads a table; it may say what was found out about the file."""

    began: Callable[[Any], None] = lambda _: None
    """Called with the table when everything has been checked and the long work begins."""

    quick_risk: bool = False
    """Whether linkage is measured even if no report is asked for."""

    committing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while finished files take their places."""


@dataclass(frozen=True, repr=False)
class ProtectedFile:
    """What came of a job: the release, what was measured of it, and the files that were written."""

    release: Release
    risk: Risk | None
    assessment: Assessment | None
    """Its verdict is that of the policy, if there is one."""

    written: list[Any]
    read_as: str = ""
    original: Any = None
    """The table as it was read, if it is in memory."""

    @property
    def broken(self) -> Verdict | None:
        """The verdict of a policy that is not met; then nothing was written."""
        verdict = None if self.assessment is None else self.assessment.verdict
        return None if verdict is None or verdict.met else verdict


@dataclass(frozen=True, repr=False)
class Job:
    """A file to protect: where it is, where the release goes, and how."""

    source: Place
    output: Place
    options: ProtectFile
    params: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Remarks that stand before the warnings of the release."""

    recipe: Path | None = None
    """The recipe that asks for it."""

    @property
    def reading(self) -> ReadOptions:
        """How the source is read."""
        return ReadOptions.of(self.options)

    @property
    def extras(self) -> list[Path]:
        """The files asked for in addition to the output."""
        options = self.options
        pages = [*_with_twin(options.report), *_with_twin(options.public_report)]
        return [*pages, *(Path(p) for p in (options.recipe, options.registry) if p is not None)]

    @property
    def private(self) -> list[Path]:
        """Those that hold the seed, or what confirms a guess, and are for their owner only."""
        recipe, registry = self.options.recipe if self.options.include_seed else None, self.options.registry
        return [*_with_twin(self.options.report), *(Path(p) for p in (registry, recipe) if p is not None)]

    @property
    def inputs(self) -> list[Place]:
        """Everything that is read, and must not be overwritten."""
        options = self.options
        rules = None if options.rules in INFERRED or not isinstance(options.rules, str | Path) else options.rules
        own = [self.params.get(name) for name in path_parameters(options.method)]
        named = [self.recipe, rules, options.policy, options.secret, *own]
        return [self.source, *(place_from(place) for place in named if isinstance(place, str | Path))]


def _with_twin(report: Path | None) -> list[Path]:
    """The files of a report: the page, and the JSON file of the same name."""
    from microveil.report import twin

    return [] if report is None else [report, twin(report)]


@dataclass(frozen=True, repr=False)
class Measured:
    """What was measured of a release: for the policy, for people, and for the reports with a word on it."""

    assessment: Assessment | None
    risk: Risk | None
    reported: Assessment | None = None
    remark: str = ""

    @property
    def met(self) -> bool:
        """Whether there is no policy that it does not meet."""
        return self.assessment is None or self.assessment.met is not False


def check_targets(job: Job) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    options = job.options
    if options.include_seed and options.recipe is None:
        raise ParameterError("--include-seed: no recipe is asked for", "name one with --save-recipe FILE.toml")
    memory_in_bytes(options.memory)
    check_target(job.output, job.inputs, replacing=options.overwrite)
    read = [file for file in map(file_of, job.inputs) if file is not None]
    for path in job.extras:
        check_place(path, read)
    output = file_of(job.output)
    check_different([*([] if output is None else [output]), *job.extras])
    written = own_file(job.output)  # the file of a database is not replaced, only its table
    for path in [*job.extras, *([] if written is None else [written])]:
        check_new(path, overwrite=options.overwrite)


def check_different(targets: Sequence[Path]) -> None:
    """No output may overwrite another."""
    if len({path.resolve() for path in targets}) < len(targets):
        raise ParameterError("two outputs have the same name", "give each a name of its own")
