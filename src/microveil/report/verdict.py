"""The first screen: what was released, one figure of risk and one of loss with their scales, what is to be decided.

The same plain data head the reports, and stand for releases, assessments, studies and advice in notebooks.
A light always has its word beside it; none says more than that a figure is small, and none that data are anonymous.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from microveil.assessment.assessment import Assessment, gain_of
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.measures.base import Measure
from microveil.measures.labels import LabelPair
from microveil.release.release import Audit, Release

LOW_RISK, HIGH_RISK = 0.02, 0.2
"""What the best attack may gain over luck: one in fifty, the limit of `recommend`; and what is too much for most."""

SMALL_LOSS, LARGE_LOSS = 0.1, 0.25
"""Of what a shuffle of every column loses: from the second on a statistic is no longer said to be kept."""

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"

RELATIONS = {
    "correlation_difference": "a correlation",
    "rank_correlation_difference": "a rank correlation",
    "group_means": "the mean of a group, in standard deviations",
    "two_way_tables": "a table of two columns of labels, as the share of records that would have to move",
}
"""Measures that a shuffle of every column gives a scale to."""

FEW_RELATIONS = 0.05
"""A shuffle that loses less than this has no relation to lose."""

UNIQUE = "of the rows are unique on the columns in clear"
"""A warning that stands with the columns in clear."""

SURE = 0.95
"""The risk of a record from which on it is hardly luck."""


@dataclass(frozen=True)
class Light:
    """A figure with its scale, its colour and the word that says the same."""

    name: str
    colour: str
    word: str
    share: float | None
    """Where the figure lies on the scale from 0 to 1; None where there is none."""

    limits: tuple[float, float]
    """Where the scale turns from green to amber to red."""

    ends: tuple[str, str]
    said: str


def risk_light(found: Assessment | None) -> Light:
    """What the best attack gains over luck."""
    ends, limits = ("no better than luck", "everything found"), (LOW_RISK, HIGH_RISK)
    worst, gain = (None, None) if found is None else (found.worst_attack, found.worst_gain)
    if worst is None or gain is None:
        said = "No attack was tried, so nothing is known of what an intruder would find."
        return Light("Risk", GREY, "not measured", None, limits, ends, said)
    colour, word = _judged(gain, limits, ("low", "raised", "high"))
    beyond = worst.low > (worst.chance or 0.0)
    if colour == RED and not beyond:  # what luck does as well is no finding
        colour, word = AMBER, "not told apart from luck"
    low, high = (max(gain_of(replace(worst, value=end)), 0.0) for end in (worst.low, worst.high))
    said = (
        f"The best of the attacks tried ({worst.id}) gains {percent(gain)} of what luck leaves to be gained (95 % "
        f"interval {percent(low)} to {percent(high)}): {digits(worst.value)} found, by luck {digits(worst.chance)}"
        f"{'' if beyond else ', which cannot be told apart'}."
    )
    return Light("Risk", colour, word, gain, limits, ends, said)


def loss_light(found: Assessment | None, kept: Mapping[str, float], distances: Sequence[float] = ()) -> Light:
    """What was lost most, as a share of what a shuffle of every column loses; without an assessment, what is known.

    Args:
        found: the assessment, if there is one.
        kept: the statistics that were to be kept, with their errors.
        distances: of the distributions of columns before and after, which nobody may have promised to keep.
    """
    ends, limits = ("as in the original", "as after shuffling every column"), (SMALL_LOSS, LARGE_LOSS)
    losses = {} if found is None else _losses(found)
    if losses:
        name, (share, said) = max(losses.items(), key=lambda item: item[1][0])
        colour, word = _judged(share, limits, ("small", "some", "large"))
        return Light("Loss", colour, word, share, limits, ends, said)
    promised = {name: error for name, error in kept.items() if name != "linear rules"}
    if distances:
        promised["distribution"] = max(promised.get("distribution", 0.0), *distances)
    if not promised:
        return Light("Loss", GREY, "not measured", None, limits, ends, "What the release lost was not measured.")
    name, error = max(promised.items(), key=lambda item: item[1] if item[1] == item[1] else math.inf)
    share = min(error, 1.0) if error == error else 1.0
    colour, word = _judged(share, limits, ("small", "some", "large"))
    ends = ("as in the original", "off by a standard deviation, or a correlation of 1")
    said = f"By what is known without an assessment, {name} is off most: {digits(error)}."
    return Light("Loss", colour, word, share, limits, ends, said)


def _losses(found: Assessment) -> dict[str, tuple[float, str]]:
    """Losses on one scale, each with its sentence."""
    losses = {}
    for name, of in RELATIONS.items():
        _, shuffle = found.known(name)
        if name in found and shuffle is not None and shuffle >= FEW_RELATIONS:
            share = min(max(found[name].value / shuffle, 0.0), 1.0)
            losses[name] = share, f"Largest change of {of}: {digits(found[name].value)}; a shuffle: {digits(shuffle)}."
    if "ks" in found:
        value = found["ks"].value
        losses["ks"] = value, f"Distance of the distributions of a column, on average: {digits(value)} of at most 1."
    return losses


def _judged(share: float, limits: tuple[float, float], words: tuple[str, str, str]) -> tuple[str, str]:
    place = sum(share > limit for limit in limits)
    return (GREEN, AMBER, RED)[place], words[place]


def decisions(
    release: Release, found: Assessment | None, audits: Sequence[Audit] | None, labels: LabelPair | None
) -> list[dict[str, str]]:
    """What its owner must decide before the release leaves: each with the question, and what it is about."""
    asked = [*_about_clear(release), *_about_groups(labels), *_about_risk(found)]
    broken = [audit for audit in audits or () if audit.after > audit.before]
    if broken:
        rules = "; ".join(f"{audit.rule} ({audit.after:,} times)" for audit in broken[:3])
        asked.append(line("Rules that no longer hold", f"{rules}. Will users stumble over it?"))
    if release.not_kept:
        names = ", ".join(f"{name} (off by {digits(error)})" for name, error in release.not_kept.items())
        asked.append(line("Not kept", f"{names}. Is the release of use without?"))
    if release.kept_exactly:
        exact = ", ".join(release.kept_exactly)
        asked.append(line("Disclosed exactly", f"{exact}: kept to the last digit. May everybody know them?"))
    return [*asked, *(line("Warning", _sentence(warning)) for warning in grouped_warnings(release))]


def grouped_warnings(release: Release) -> list[str]:
    """The warnings, those that begin alike in one; without the one on columns in clear, which stands by itself."""
    groups: dict[str, list[str]] = {}
    for warning in release.warnings:
        begins, colon, rest = warning.partition(": ")
        groups.setdefault(begins + colon, []).append(rest)
    groups.pop("released as they are: ", None)
    joined = [begins + _joined(rest) for begins, rest in groups.items()]
    return [warning for warning in joined if UNIQUE not in warning]


def _joined(parts: list[str]) -> str:
    """Parts with semicolons; a bracket that all of them end with stands once."""
    bracket = parts[0][parts[0].rfind(" (") :] if parts[0].endswith(")") else ""
    if len(parts) > 1 and bracket and all(part.endswith(bracket) for part in parts):
        return "; ".join(part.removesuffix(bracket) for part in parts) + bracket
    return "; ".join(parts)


def _about_clear(release: Release) -> list[dict[str, str]]:
    if not release.in_clear:
        return []
    alone = f" {percent(release.unique_in_clear)} of the rows are unique on them." if release.unique_in_clear else ""
    columns = ", ".join(release.in_clear)
    return [line("In clear", f"{columns}: released as in the original.{alone} Is each of them public?")]


def _about_groups(labels: LabelPair | None) -> list[dict[str, str]]:
    """Labels that few records have: they point at them, wherever they are."""
    small = {} if labels is None else small_groups(labels)
    if not small:
        return []
    said = ", ".join(f"{name} ({count})" for name, count in small.items())
    few = f"Labels that fewer than {FEWEST_RECORDS} records have: {said}."
    return [line("Small groups", f"{few} Whoever has one is easily found: pool them, or leave them out?")]


def small_groups(labels: LabelPair) -> dict[str, int]:
    """By column, how many of its labels few released records have."""
    import numpy as np

    chosen, found = labels.of_labels, {}
    for j, name in enumerate(chosen.names):
        counts = np.bincount(chosen.released[:, j] + 1, minlength=chosen.sizes[j] + 1)[1:]
        count = int(np.count_nonzero((counts > 0) & (counts < FEWEST_RECORDS)))
        if count:
            found[name] = count
    return found


def _about_risk(found: Assessment | None) -> list[dict[str, str]]:
    if found is None:
        return [line("Not measured", "Nobody has tried to break this release. Measure it before it leaves.")]
    asked = []
    light = risk_light(found)
    if light.colour in (AMBER, RED):
        said = f"It is {light.word}, by {next(iter(found.gains))}. Is that within what was agreed?"
        asked.append(line("Risk", said))
    single: Measure | None = found.get("max_record_risk")
    if single is not None and single.value > SURE:
        said = f"One stands out by {digits(single.value)}; above {SURE} that is hardly luck. See Records."
        asked.append(line("Single records", said))
    if found.verdict is not None and not found.verdict.met:
        asked.append(line("Policy", "It is not met: see the lines below."))
    return asked


def line(about: str, said: str) -> dict[str, str]:
    """A line of a list on a first screen: what it is about, if that needs a word, and what is said."""
    return {"about": about, "said": said}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", ")")) else ".")


def digits(figure: float | str | None) -> str:
    """Three digits, without powers of ten: a dash for none, and a bound for what is next to nothing."""
    if figure is None:
        return "-"
    if isinstance(figure, str):
        return {"Infinity": "∞", "-Infinity": "-∞", "NaN": "-"}.get(figure, figure)
    if not math.isfinite(figure):
        return "-" if math.isnan(figure) else "∞" if figure > 0 else "-∞"
    size = abs(figure)
    if size < 1e-8:  # round-off
        return "0"
    if size < 0.0001:
        return "< 0.0001" if figure > 0 else "> -0.0001"
    if size < 1:
        return f"{figure:.3g}"
    if size >= 1e15:
        return "very large" if figure > 0 else "very small"
    if figure == int(figure) and size < 1000:
        return f"{figure:.0f}"
    return f"{float(f'{figure:.3g}'):,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def percent(share: float | None) -> str:
    """A share in per cent, with one decimal below ten."""
    if share is None or not math.isfinite(share):
        return "-"
    if abs(share) < 1e-8:  # round-off
        return "0 %"
    if abs(share) < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.{0 if abs(share) >= 0.0995 else 1}f}".removesuffix(".0") + " %"
