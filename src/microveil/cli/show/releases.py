"""What is printed of a release, of an assessment and of a suppressed table."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from microveil.assessment.assessment import Assessment
from microveil.assessment.measuring import CLEAR
from microveil.assessment.policy import Verdict
from microveil.cli.show.console import aligned_row, better, number, out, print_notes
from microveil.core.errors import as_typed, some_of
from microveil.intake.describe import Description
from microveil.intake.kinds import LABELS, NOT_COMPUTED_WITH, TIMES
from microveil.measures.base import Kind, Measure, plain
from microveil.release.release import Release

Risk = tuple[Measure, Measure]

SMALLEST_SHOWN = 1e-16
"""Errors below are shown as this."""

NO_DIGIT = 1e-9
"""What a division leaves over a whole number, which is no reason to round up."""

RELEASE_TYPES = {
    "masked": "values are original ones, exchanged between records or blurred",
    "hybrid": "values are partly original, partly drawn anew",
    "synthetic": "values are drawn anew from what was estimated, none is an original one",
}
"""What the types of releases mean."""

MOST_RULES = 6
"""Broken rules that are shown one by one."""


def as_dict(release: Release, risk: Risk | None) -> dict[str, Any]:
    """The account of a release as plain data: no seed, no value."""
    return {
        "method": release.method,
        "kind": release.release_type,
        "rows": release.rows,
        "kept": dict(release.kept),
        "kept_on_average": list(release.kept_on_average),
        "rules": release.rules,
        "audit": None if (audit := release.audit) is None else [dataclasses.asdict(line) for line in audit],
        "dose": {name: dataclasses.asdict(dose) for name, dose in release.dose.items()},
        "labels": {name: dataclasses.asdict(dose) for name, dose in release.labels.items()},
        "kinds": dict(release.kinds),
        "in_clear": list(release.in_clear),
        "altered_variance": release.components.altered_variance,
        "components": release.components.to_rows(),
        "untouched_variance": release.components.untouched_variance,
        "found": {name: plain(value) for name, value in release.found.items()},
        "leakage": None if release.leakage is None else dataclasses.asdict(release.leakage),
        "warnings": release.warnings,
        "ledger": None if release.ledger is None else release.ledger.to_dict(),
        "risk": None if risk is None else {"before": risk[0].to_dict(), "after": risk[1].to_dict()},
    }


def in_clear(result: Release) -> None:
    """The first line of all: what is released as it is."""
    if result.ledger is None:
        columns = escape(", ".join(result.in_clear)) or "no column"
        out(f"[bold]In clear:[/bold] {columns}")


def release(result: Release, risk: Risk | None, judged: Assessment | None) -> None:
    """The account of a release for a person."""
    if result.ledger is not None:
        _private(result)
        return
    out(
        f"Protected {len(result.dose) + len(result.labels)} columns of {result.rows:,} rows with "
        f"[bold]{result.method}[/bold] "
        f"({result.settings['parameters']['perturb']}): {RELEASE_TYPES[result.release_type]}."
    )
    if result.computed:
        out(f"[bold]Computed anew[/bold] from protected columns: {escape(some_of(result.computed))}")
    out(f"[bold]Changed:[/bold] {_dose(result)}")
    weighted = "weighted " if result.settings["weight"] else ""
    words = {
        "mean": f"{weighted}means",
        "covariance": f"{weighted}covariances",
        "rank correlation": "rank correlations",
        "distribution": "distributions",
        "mean in clusters": "means in clusters",
        "covariance in clusters": "covariances in clusters",
        "group means": "the worst of the means of groups, in standard deviations",
    }
    groups = {"Kept exactly": result.kept_exactly, "Kept closely": result.kept_closely, "Not kept": result.not_kept}
    for title, those in groups.items():
        near = "off by" if title == "Not kept" else "to"
        kept = ", ".join(f"{words.get(name, name)} ({near} {_bound(error)})" for name, error in those.items())
        if kept and title == "Kept exactly" and result.settings["strata"]:
            kept += ", in every stratum"
        if kept:
            out(f"[bold]{title}:[/bold] {kept}")
    if result.kept_on_average:
        out(f"[bold]Kept on average:[/bold] {', '.join(words[name] for name in result.kept_on_average)}")
    if result.found:
        found = ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in result.found.items())
        out(f"[bold]Found:[/bold] {found}")
    for rule in result.rules:
        out(f"  holds in every row: {escape(rule)}")
    _audit(result)
    if risk is not None:
        _risk(*risk)
    print_notes(map(as_typed, result.warnings))
    if judged is not None and judged.verdict is not None:
        _verdict(judged.verdict)


def _private(result: Release) -> None:
    """The account of a release under differential privacy: whoever sees it may publish it."""
    ledger = result.ledger
    if ledger is None:
        return
    promise = (
        f"[bold red]{escape(ledger.promise)}[/bold red]"
        if ledger.void
        else f"under [bold]differential privacy[/bold]: epsilon {ledger.epsilon:g}, delta {ledger.delta:g}, for each "
        f"{escape(ledger.unit)}"
    )
    out(f"Released {result.rows:,} rows of {len(result.kinds)} columns{'.' * bool(ledger.void)} {promise}.")
    for row in ledger.to_rows():
        said = f"{row['share']:6.1%} of the loss, noise {row['noise_sd']:.3g} on each of {row['numbers']}"
        out(f"  {escape(row['query'])}: {said}")


def _risk(before: Measure, after: Measure) -> None:
    """The first figure: what the whole file gives away."""
    if after.id == CLEAR:
        out(
            f"[bold]Risk:[/bold] {100 * after.value:.1f} % of the rows are unique on the columns in clear, and can be "
            "found by whoever knows these"
        )
    else:
        out(
            f"[bold]Risk:[/bold] {100 * before.value:.1f} % of records can be linked before, "
            f"{100 * after.value:.2f} % after (95 % interval {100 * after.low:.2f} to {100 * after.high:.2f} %, "
            f"chance {100 * (after.chance or 0):.2f} %; lower is better)"
        )
    note = f" [{after.note}]" if after.note else ""
    out(f"  {after.id}: {after.meaning}{note}", markup=False)


def _dose(result: Release) -> str:
    """How far the columns are from the originals: what was reached, as what was set out for need not be."""
    reached = [dose.achieved for dose in result.dose.values() if dose.asked != 0]
    said = []
    if reached:
        mean, low, high = sum(reached) / len(reached), min(reached), max(reached)
        said.append(
            f"by {100 * mean:.0f} % on average, {100 * low:.0f} to {100 * high:.0f} by column (0: untouched, 100: "
            "unrelated to the original)"
        )
    if result.labels:
        shares = [100 * dose.cells_changed for dose in result.labels.values()]
        span = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (min(shares), max(shares))))
        said.append(f"labels are others in {span} % of the rows")
    return "; ".join(said) or "nothing was to be changed"


def _bound(error: float) -> str:
    """Two digits, rounded up: what is kept to this is kept."""
    error = max(error, SMALLEST_SHOWN)
    if not math.isfinite(error):
        return f"{error}"
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    rounded = math.ceil(error / unit - NO_DIGIT) * unit
    return f"{rounded:.1e}" if rounded < 1e-4 else f"{rounded:.2g}"


def _audit(result: Release) -> None:
    """How many rules were broken, before and after, and which."""
    lines = result.audit or []
    if not lines:
        return
    before, after = (sum(getattr(line, when) > 0 for line in lines) for when in ("before", "after"))
    out(f"[bold]Rules:[/bold] of {len(lines)}, {before} were broken before and {after} are after")
    broken = [line for line in lines if line.before or line.after]
    for line in broken[:MOST_RULES]:
        out(f"  {escape(line.rule)}: {line.before} times before, {line.after} times after")
    if len(broken) > MOST_RULES:
        out(f"  and {len(broken) - MOST_RULES} more: --json and the internal report have all")
    if any(" <= " in line.rule and line.after > line.before for line in broken):
        out(
            "  Orders are kept by veil where that costs little, and by every method where the dictionary of the "
            "columns declares them (enforce = true): describe FILE -o, --rules"
        )


TITLES: dict[Kind, str] = {"risk": "Risk", "utility": "Utility", "score": "Scores"}
HEADINGS = ("figure [95 % interval]", "chance", "identity", "shuffle")


def assessment(judged: Assessment) -> None:
    """The figures for a person: each with its interval, its chance level, and what the two known releases give."""
    original, released = judged.rows
    rows = f"{released} rows" if original == released else f"{original} original and {released} released rows"
    out(f"{len(judged.columns)} columns, {rows}")
    cells = {name: _cells(judged, measure) for name, measure in judged.items()}
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells.values(), strict=True)]
    first = max(map(len, judged))
    for kind, title in TITLES.items():
        measures = judged.of_kind(kind)
        if measures:
            out()
            out(aligned_row(title, first, HEADINGS, widths), style="bold", markup=False)
        for name, measure in measures.items():
            note = f" [{measure.note}]" if measure.note else ""
            out(aligned_row(name, first, cells[name], widths), markup=False)
            out(f"    {better(measure.better)}: {measure.meaning}{note}", style="dim", markup=False)
    out()
    _remarks(judged)
    if judged.verdict is not None:
        _verdict(judged.verdict)


def _remarks(judged: Assessment) -> None:
    if judged.sanity is not None:
        out(
            "identity: the originals released as they are; shuffle: each of their columns shuffled on its own; both "
            f"measured on {judged.sanity.rows} of {judged.sanity.of} records"
        )
    worst = judged.worst_attack
    if worst is not None:
        chance = worst.chance or 0.0
        gain = f"a gain of {number(judged.worst_gain or 0.0)} of what was to be gained"
        luck = "" if worst.low > chance else ", which cannot be told from luck"
        found = f"{worst.id}, {number(worst.value)} (chance {number(chance)})"
        out(f"[bold]Gains most over chance:[/bold] {found}: {gain}{luck}")
    print_notes((f"{name} ({reason})" for name, reason in judged.skipped.items()), "Not measured")
    print_notes(map(as_typed, judged.notes))


def _cells(judged: Assessment, measure: Measure) -> tuple[str, ...]:
    interval = f" [{number(measure.low)}, {number(measure.high)}]" if measure.low < measure.high else ""
    known = (measure.chance, *judged.known(measure.id))
    return f"{number(measure.value)}{interval}", *(number(figure) for figure in known)


def _verdict(verdict: Verdict) -> None:
    remark = f"; {escape(verdict.remark)}" if verdict.remark else ""
    out(f"[bold]Policy {escape(verdict.policy)}:[/bold] {'met' if verdict.met else 'not met'}{remark}")
    for line in verdict.lines:
        said = f"{number(line.figure)}, {line.limit}" if line.met else line.reason
        out(f"  {'met    ' if line.met else 'NOT MET'}  {line.limit.measure}: {escape(said)}")


def demo_begins(source: Path) -> None:
    """What the demo is about to do."""
    out(f"An invented survey of 1,200 firms ships with microveil: {escape(str(source))}")
    out("Now: microveil protect business_survey.csv -o released.csv --protected-weight weight")
    out()


def findings(found: Description) -> None:
    """What was found in a file, in a few lines, before it is protected."""
    numeric = [column for column in found.columns if column.numeric and column.kind not in NOT_COMPUTED_WITH]
    lists = {
        "labels": [column.name for column in found.columns if column.kind in LABELS],
        "dates and times": [column.name for column in found.columns if column.kind in TIMES],
        "whole numbers": [column.name for column in numeric if column.integer],
        "zero is a value of its own": [column.name for column in numeric if column.zero_spike],
        "codes, not values": [
            f"{column.name} ({', '.join(f'{code:g}' for code in column.special_codes)})"
            for column in numeric
            if column.special_codes
        ],
        "cells missing": [column.name for column in found.columns if column.missing],
        "looks like an identifier": [f"{name} ({reason})" for name, reason in found.identifiers.items()],
    }
    many = f"{len(numeric)} column{'' if len(numeric) == 1 else 's'}"
    out(f"[bold]Found[/bold] in {found.rows:,} rows and {many} of numbers:")
    for title, names in lists.items():
        if names:
            out(f"  {title}: {escape(some_of(names))}")
    print_rules(found, "  ")


def print_rules(found: Description, indent: str = "") -> None:
    """The rules that were found in a table."""
    for rule in found.rules:
        out(f"{indent}Holds in every row: {escape(rule)} ({escape(found.treatments[rule])})")
    for near in found.near_rules:
        share = 100 * (1 - near["exceptions"] / near["rows"])
        out(
            f"{indent}Holds in {share:.1f} % of the rows: {escape(near['rule'])} ({near['exceptions']} exceptions; "
            "kept only if the dictionary of the columns says so)"
        )
    if found.orders:
        orders = [f"{order['lower']} <= {order['upper']}" for order in found.orders]
        out(f"{indent}Never above: {escape(some_of(orders))} ({found.treatments[orders[0]]})")
    for sentence in found.relations.sentences:
        out(f"{indent}Follows: {escape(sentence)}")
    if found.relations.pairs:
        out(f"{indent}Never together: {escape(some_of(found.relations.pairs))}")


def suppressed_table(figures: Mapping[str, Any], written: Sequence[Path]) -> None:
    """What became of a table: counts, sums that were asked for, verdicts, warnings."""
    why = f", {figures['primary']:,} of them for their own sake and {figures['secondary']:,} to protect them"
    known = why if figures["primary"] else ""  # a pattern need not say why cells are hidden
    out(f"{figures['cells']:,} cells: {figures['suppressed']:,} hidden{known}")
    for text, found in figures.get("sums", {}).items():
        word = "can be published" if found["publishable"] else "must not be published: it has decimals"
        out(escape(f"  {text} = {found['value']:.10g} {word}"))
    if "exactly_determined" in figures:
        exact, near = figures["exactly_determined"], figures["nearly_determined"]
        out(f"exactly determined: {exact:,}; nearly determined: {near:,}")
        if figures["ends_not_searched"]:
            more = "may lie further out than the ends that are given (--exact-intervals searches for the ends)"
            out(f"of {figures['ends_not_searched']:,} protected cells two possible tables are known: they {more}")
        for verdict, names in figures["named"].items():
            for name in names[:MOST_RULES]:
                out(escape(f"  {verdict}: {name}"))
            if len(names) > MOST_RULES:
                out(f"  and {len(names) - MOST_RULES:,} others {verdict}")
    for warning in figures["warnings"]:
        out(escape(f"warning: {warning}"))
    for path in written:
        out(escape(f"written: {path}"))
