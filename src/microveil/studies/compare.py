"""Methods x parameters x repeated seeds x measures, in parallel processes; a killed study goes on where it was."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microveil.assess import assess, assess_release
from microveil.assessment import measuring
from microveil.assessment.assessment import Assessment
from microveil.assessment.policy import check_range
from microveil.core.errors import DisclosureWarning, MicroveilError, ParameterError, did_you_mean
from microveil.core.rng import Streams
from microveil.core.threads import worker_count
from microveil.io.frames.dataframes import fingerprint, open_frame, table_like
from microveil.methods import method_named
from microveil.options import DECIMALS, NEGATIVE, Compare, declared_by
from microveil.protection.in_memory import protect
from microveil.release.release import Release
from microveil.release.remarks import DECIMALS_SAID, NEGATIVE_SAID
from microveil.studies.columns import protected_columns
from microveil.studies.store import Store
from microveil.studies.study import KEPT, LOSS, WORST, Study, is_table
from microveil.studies.workers import run_tasks

Progress = Callable[[str, float], None]
Methods = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Method and parameters by label."""

Given = Sequence[str | tuple[str, Mapping[str, Any]]] | Mapping[str, str | tuple[str, Mapping[str, Any]]]

ROLES = ("confidential", "public", "strata", "weight")

OWN_ROLES = ("protected_weight", "keep")
"""Roles that a candidate may have of its own."""

PLAIN = (str, int, float, np.number, Path, type(None))
"""What is shown of settings in labels."""

ODD = {NEGATIVE: f"{NEGATIVE_SAID}: ", DECIMALS: f"{DECIMALS_SAID}: "}
"""Remarks on a release that speak against its method, by the word that allows it."""

FIRST_HERE = 2.0
"""Seconds of a study in this process, if nobody said how many are to work: about what it takes to start others."""

FILES = {"other", "rules"}
"""Settings that may name a file: another content is other work."""


@dataclass(frozen=True)
class PlannedRelease:
    """One release to make and to measure. Its key is the same for the same work, whatever the method is called."""

    label: str
    method: str
    parameters: Mapping[str, Any]
    repeat: int
    key: str
    seed: int | None = field(repr=False)


@dataclass(frozen=True, repr=False)
class StudyPlan:
    """What all releases of a study share."""

    data: Any
    roles: Mapping[str, Any]
    measures: Sequence[str]
    sensitive: Sequence[str | int] | None = None
    as_released: bool = False
    """Is every release one that would be published, with its labels, or of numbers alone, to compare methods?"""


@declared_by(Compare)
def compare(data: Any, methods: Given, *, progress: Progress | None = None, **options: Any) -> Study:
    """Protect a table with several methods many times, measure every release, and sum up.

    Args:
        data: any table that `protect` takes.
        methods: ids, (id, parameters) pairs, or either of them by a label of your own.
        progress: called with the name of the step and the share done.
        **options: the options below.
    """
    asked = Compare.checked({**options, "methods": methods})
    candidates = labelled(asked.methods)
    ids = measures_of_numbers(asked.measures)
    ids = ids if asked.sensitive is None else list(dict.fromkeys([*ids, KEPT]))
    roles = {name: getattr(asked, name) for name in (*ROLES, "rules")}
    study_key = key_of(fingerprint(data), json.dumps(identity_of([roles, asked.sensitive])), sorted(ids))
    fixed = {
        label
        for label, (method, parameters) in candidates.items()
        if not method_named(method).plan(without_roles(parameters)).perturb.random
    }
    planned = [
        planned_release(label, *candidate, repeat, study_key, asked.seed)
        for label, candidate in candidates.items()
        for repeat in range(1 if label in fixed else asked.repeats)
    ]
    kept = Store(None if asked.store is None else Path(asked.store))
    waiting = [release for release in planned if release.key not in kept.results]
    done = len(planned) - len(waiting)

    def finished(number: int, result: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        kept.add(waiting[number].key, result)
        if progress is not None:
            progress(f"measuring {waiting[number].label}", done / len(planned))

    with kept.writing():
        plan = StudyPlan(data, roles, ids, asked.sensitive)
        count, here = (worker_count(), FIRST_HERE) if asked.workers is None else (asked.workers, 0.0)
        run_tasks(measured, plan, waiting, count, finished, here)
    results = {label: [kept.results[one.key] for one in planned if one.label == label] for label in candidates}
    # Why a method failed first; a mean over those releases that happened to succeed would flatter it.
    failed = {label: one["failed"] for label, found in results.items() for one in reversed(found) if "failed" in one}
    whole = {label: found for label, found in results.items() if label not in failed}
    figures = {label: [one["figures"] for one in found] for label, found in whole.items()}
    chances = {label: found[0]["chances"] for label, found in whole.items()}
    return Study(
        candidates, figures, chances, measuring.entries(), failed, partial(table_like, open_frame(data)), ids, fixed
    )


def measures_for(measures: str | Sequence[str], limit: Mapping[str, float]) -> list[str]:
    """The measures asked for, and those that a choice within the limits needs, too."""
    known = measuring.entries()
    for name in limit:
        if name != WORST and name not in known:
            raise ParameterError(f"limit: there is no measure '{name}'", did_you_mean(name, [WORST, *known]))
        check_range(f"limit: {name}", known[name], limit[name])
    ids = measures_of_numbers(measures, tuple(limit))
    if limit:
        ids = list(dict.fromkeys([*ids, *(name for name in limit if name != WORST), LOSS]))
    if WORST in limit and not any(known[name].kind == "risk" for name in ids if name != WORST):
        raise ParameterError(f"limit: {WORST} is the worst of the attacks, and none is measured", "measure some")
    return ids


def measures_of_numbers(measures: str | Sequence[str], also: Sequence[str] = ()) -> list[str]:
    """The ids of the measures; those of labels are refused, as methods are compared on numbers, which all can treat."""
    ids = measuring.chosen(measures)
    for name in (*ids, *also):
        if name in measuring.NOT_IN_ALL:
            problem = f"measures: '{name}' is about labels or columns in clear, and methods are compared on numbers"
            raise ParameterError(problem, "leave it out, and use `assess` on a release")
    return ids


def label_of(method: str, parameters: Mapping[str, Any], hidden: Collection[str] = ()) -> str:
    """A method and its settings, `noise group_size=4`; of a table or an array only the name, for labels are shown."""
    shown = {name: value for name, value in parameters.items() if name not in hidden}
    return " ".join([method, *(f"{name}={value}" if _is_plain(value) else name for name, value in shown.items())])


def _is_plain(value: Any) -> bool:
    return all(isinstance(one, PLAIN) for one in (value if isinstance(value, list | tuple) else [value]))


def labelled(methods: Given) -> Methods:
    """Method and parameters by label; without one, a method is called by its id and what was set."""
    if isinstance(methods, str) or not isinstance(methods, Mapping | Sequence) or not methods:
        raise ParameterError("methods: takes ids or (id, parameters) pairs", "give a list, or a dict of labels")
    entries = methods.items() if isinstance(methods, Mapping) else [(None, entry) for entry in methods]
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for given, entry in entries:
        method, parameters = (entry, {}) if isinstance(entry, str) else entry
        method_named(method).plan(without_roles(parameters))
        label = given or label_of(method, parameters)
        if label in found:
            raise ParameterError(f"methods: '{label}' is there twice", "give them labels of their own")
        found[label] = (method, parameters)
    return found


def identity_of(value: Any, name: str = "") -> Any:
    """What the key of a release is made of: all of a setting; of tables and files a fingerprint."""
    if isinstance(value, str | Path) and name in FILES and Path(value).is_file():
        return hashlib.blake2b(Path(value).read_bytes(), digest_size=16).hexdigest()
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): identity_of(one, key) for key, one in value.items()}
    if is_table(value):
        return fingerprint(value)
    if isinstance(value, Iterable) and not isinstance(value, Iterator):
        return [identity_of(one) for one in value]
    return str(value)


def without_roles(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the method itself, without the roles of columns."""
    return {name: value for name, value in parameters.items() if name not in (*ROLES, *OWN_ROLES)}


def planned_release(
    label: str, method: str, parameters: Mapping[str, Any], repeat: int, study_key: str, seed: int | None
) -> PlannedRelease:
    """A release with its key and, of a study that has a seed, a seed of its own."""
    key = key_of(study_key, method, json.dumps(identity_of(parameters), sort_keys=True), repeat)
    if seed is None:
        return PlannedRelease(label, method, parameters, repeat, key, None)
    own = int(Streams.from_seed(seed).stream("study", key).generator().integers(2**63))
    return PlannedRelease(label, method, parameters, repeat, key_of(key, own), own)


def key_of(*parts: object) -> str:
    """The same short text for the same parts."""
    return hashlib.blake2b(json.dumps([str(part) for part in parts]).encode(), digest_size=16).hexdigest()


def measured(plan: StudyPlan, planned: PlannedRelease) -> dict[str, Any]:
    """The figures of one release, or why there is none."""
    result = {"label": planned.label, "method": planned.method, "repeat": planned.repeat}
    try:
        with warnings.catch_warnings():  # nothing of a study is released
            warnings.simplefilter("ignore", DisclosureWarning)
            # Most methods protect numbers only, so that is what they are compared on; what stays in clear is no matter.
            options = {**({} if plan.as_released else {"keep": "rest"}), **plan.roles, **planned.parameters}
            release = protect(plan.data, planned.method, seed=planned.seed, **options)
        assessment = _assessed(plan, release)
        if not plan.as_released or "keep" not in planned.parameters:  # what people put there is no fault of the method
            assessment = dataclasses.replace(assessment, in_clear=None)
    except MicroveilError as error:
        return {**result, "failed": str(error)}
    figures = {name: measure.value for name, measure in assessment.items()}
    if assessment.worst_gain is not None:
        figures.pop(WORST, None)
        figures[WORST] = assessment.worst_gain
    # JSON has no infinity; a figure that is infinite (a divergence of singular matrices) is a missing one.
    finite = {name: value for name, value in figures.items() if abs(value) < float("inf")}
    chances = {name: measure.chance for name, measure in assessment.items() if measure.chance is not None}
    result |= {"figures": finite, "chances": chances}
    return {**result, "gains": assessment.gains_with_low, "odd": _odd(release)} if plan.as_released else result


def _odd(release: Release) -> dict[str, str]:
    """What a release is not to be advised for: columns by the word that allows it."""
    still = [name for name, dose in release.dose.items() if dose.asked != 0 and dose.cells_changed == 0]
    odd = {"unchanged": ", ".join(still)}
    for word, said in ODD.items():
        odd[word] = next((one.removeprefix(said).partition(";")[0] for one in release.warnings if said in one), "")
    return {word: names for word, names in odd.items() if names}


def _assessed(plan: StudyPlan, release: Release) -> Assessment:
    """The release measured on the columns that were protected; or risk on the sensitive ones, and the rest on all."""
    if plan.sensitive is None:
        return assess_release(release, measures=list(plan.measures), sanity=False)
    protected = {name: plan.roles[name] for name in ("confidential", "strata", "weight")}
    compared = protected_columns(plan.data, {**protected, "public": None})
    options = {"rules": plan.roles["rules"], "sensitive": list(plan.sensitive), "seed": release.seed, "sanity": False}
    return assess(plan.data, release, confidential=compared, measures=list(plan.measures), **options)
