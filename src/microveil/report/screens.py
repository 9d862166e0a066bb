"""The first screen of everything that has one, as plain data; one template shows them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from microveil.assessment.assessment import Assessment
from microveil.core.errors import as_typed
from microveil.report.analyses import BROKEN, analyses, relations_not_kept
from microveil.report.material import KIND_MEANING, Compared, Material
from microveil.report.verdict import decisions, digits, line, loss_light, percent, risk_light

MOST_NAMED = 12
"""Columns that a line names."""

MOST_DECISIONS = 12

NEVER = "No figure here says that the data are anonymous."

Screen = dict[str, Any]


def screen(
    title: str,
    what: Sequence[tuple[str, str]],
    lights: Sequence[Any] = (),
    lists: Sequence[Mapping[str, Any]] = (),
    foot: str = "",
) -> Screen:
    """The parts of a first screen: a title, pairs of a name and what is said, lights, lists, and a last word."""
    return {
        "title": title,
        "what": [[name, said] for name, said in what if said],
        "lights": [asdict(light) for light in lights],
        "lists": [dict(one) for one in lists],
        "foot": foot,
    }


def listed(title: str, lines: Sequence[Mapping[str, str]], look: str = "plain") -> dict[str, Any]:
    """A list of a first screen."""
    return {"title": title, "look": look, "lines": lines}


def of_release(material: Material) -> Screen:
    """For its owner: what was released, risk and loss, and what is to be decided."""
    release, found = material.release, material.assessment
    decide = decisions(release, found, material.audits, material.labels)
    if material.files:  # the report of a file repeats it by a command, too
        decide = [line(one["about"], as_typed(one["said"])) for one in decide]
    more = len(decide) - MOST_DECISIONS
    foot = NEVER if more <= 0 else f"And {more} more warnings, further down. {NEVER}"
    return screen(
        f"Release by {release.method}",
        [*_what(material), ("Policy", _policy(found))],
        [risk_light(found), loss_light(found, release.kept, material.distances)],
        [listed("To be decided before it leaves", decide[:MOST_DECISIONS], "decide")],
        foot,
    )


def for_everybody(material: Material) -> Screen:
    """For users of the file: what it is, what it lost, what to use it for and what not."""
    uses = analyses(material)
    lost = [line("", said) for said in relations_not_kept(material, uses)]
    figures = {use["use"]: f"({use['of']}: {digits(use['figure'])})" for use in uses}
    broken = [line("", f"{use['use']} {figures[use['use']]}") for use in uses if use["verdict"] == BROKEN]
    good = [
        line("", f"{use['use']}: {use['verdict']} {figures[use['use']]}")
        for use in uses
        if use["figure"] is not None and use["verdict"] != BROKEN
    ]
    return screen(
        f"Release by {material.release.method}",
        _what(material),
        [loss_light(material.assessment, material.release.kept, material.distances)],
        [
            listed("Use it for", good, "go"),
            listed("Do not use it for", [*broken, *lost], "no"),
        ],
        "The producer measures the risk, and does not publish it. " + NEVER,
    )


def _what(material: Material) -> list[tuple[str, str]]:
    release = material.release
    about = f"{release.method}: {material.summary.rstrip('.')}" if material.summary else release.method
    protected = [*release.dose, *release.labels] or [name for name in release.kinds if name not in release.in_clear]
    left_out = [
        name
        for name, kind in release.kinds.items()
        if kind in ("identifier", "free text") and name not in release.in_clear
    ]
    return [
        ("Method", f"{about}."),
        ("Result", f"{release.release_type}: {KIND_MEANING[release.release_type]}"),
        *([("Promise", f"{release.ledger.promise}.")] if release.ledger is not None else []),
        ("Rows", f"{release.rows:,}"),
        ("Protected", f"{len(protected)} columns: {named(protected)}" if protected else "no column"),
        *([("Computed anew", f"{named(release.computed)}: from protected columns")] if release.computed else []),
        ("In clear", f"{len(release.in_clear)}: {named(release.in_clear)}" if release.in_clear else "no column"),
        ("Left out", named(left_out)),
    ]


def named(columns: Sequence[str]) -> str:
    """Names with commas; of many, some and how many more."""
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    return ", ".join(map(str, columns[:MOST_NAMED])) + more


def _policy(found: Assessment | None) -> str:
    verdict = None if found is None else found.verdict
    return "" if verdict is None else f"{verdict.to_dict()['name']}: {'met' if verdict.met else 'NOT met'}"


def of_assessment(found: Assessment) -> Screen:
    """Two files side by side: risk and loss, what was not measured and what a reader must know."""
    rows = f"{found.rows[0]:,} in the original, {found.rows[1]:,} in the release"
    skipped = [line(name, f"not measured: {reason}") for name, reason in found.skipped.items()]
    gains = [line(name, f"gains {percent(max(gain, 0.0))} over luck") for name, gain in list(found.gains.items())[:3]]
    return screen(
        "Assessment of a release",
        [
            ("Columns", f"{len(found.columns)}: {named(found.columns)}"),
            ("Rows", rows),
            ("Figures", str(len(found))),
            ("Policy", _policy(found)),
        ],
        [risk_light(found), loss_light(found, {})],
        [
            listed("Best attacks", gains),
            listed("To know", [*(line("", note) for note in found.notes), *skipped]),
        ],
        NEVER,
    )


def of_study(study: Compared, contents: Mapping[str, Any]) -> Screen:
    """Methods side by side: who is beaten by no other, and who gave nothing; `contents` are those of its report."""
    failed = [line(label, f"gave no release: {reason}") for label, reason in contents["failed"].items()]
    axes = (contents["risk"], contents["loss"])
    best = [
        line(label, ", ".join(f"{name} {digits(study.summary(label, name).mean)}" for name in axes))
        for label in contents["frontier"]
    ]
    beaten = [line(label, f"beaten by {by}") for label, by in contents["rejected"].items()]
    return screen(
        "Comparison of methods",
        [("Methods", named(list(contents["methods"]))), ("Measures", named(study.measures))],
        [],
        [
            listed("Beaten by no other, from the safest on", best),
            listed("Others", [*beaten, *failed]),
        ],
    )


def of_advice(advice: Any) -> Screen:
    """Which method, with what to expect of it, and why."""
    label = advice.label or "no method keeps the limit"
    limits = ", ".join(f"{name} at most {digits(most)}" for name, most in advice.limit.items())
    expected = [
        line(row.measure, f"{digits(row.mean)} on average") for row in advice.expected if row.measure in advice.limit
    ]
    return screen(
        f"Advice: {label}",
        [("In short", advice.why), ("Limit", limits), ("Runners-up", named(advice.runners_up))],
        [],
        [
            listed("Reasons", [line("", reason) for reason in advice.reasons]),
            listed("To expect", expected),
        ],
    )


def of_description(found: Any) -> Screen:
    """The columns of a table by their kinds, and the rules between them; no value."""
    kinds: dict[str, list[str]] = {}
    for column in found.columns:
        kinds.setdefault(column.kind or column.content, []).append(column.name)
    rules = [line("", rule) for rule in found.rules]
    decide = [
        line(about, named(names) + end)
        for about, which, end in (
            ("Doubtful", "doubtful", ": is the kind right? Say what it is with kinds (--kind column=kind)."),
            ("Codes", "special_codes", ": cells that look like codes count as missing."),
            ("Missing cells", "missing", ": veil moves them to other rows, other methods leave them where they are."),
        )
        if (names := [column.name for column in found.columns if getattr(column, which)])
    ]
    return screen(
        "Description of a table",
        [("Rows", f"{found.rows:,}"), *((kind, f"{len(names)}: {named(names)}") for kind, names in kinds.items())],
        [],
        [
            listed("To look at", decide, "decide"),
            listed("Rules found", rules),
        ],
    )
