"""A comparison of methods as a part of a report, or as one of its own: the risk-utility map and who is on its edge."""

from __future__ import annotations

from typing import Any

from microveil.core.errors import ParameterError, did_you_mean
from microveil.report.material import Compared, heading, picture
from microveil.report.portrait import Row
from microveil.report.screens import of_study

WORST_ATTACK = "worst_attack"
LOSS = "pil"
"""What the map shows where it was measured; else the first measure of its kind that was."""

UNPROTECTED = "a sensitive column is left as it was"
"""Why a method is on no frontier."""

NO_STUDY = "methods were not compared: pass release.report(..., study=mv.compare(data, methods))"


def study_report(study: Compared) -> dict[str, Any]:
    """The report of a study as plain data; it has risk figures, so it is an internal one."""
    contents = study_contents(study)
    return {
        "report": heading("internal"),
        "screen": of_study(study, contents),
        "study": contents,
        "plots": {"ru_map": map_picture(study)},
    }


def study_contents(study: Compared) -> dict[str, Any]:
    """Every figure of every method, the frontier, and for each method that is not on it one that beats it."""
    axes = map_axes(study)
    figures = study.to_dict()
    frontier = [] if axes is None else study.frontier(*axes)
    return {
        **figures,
        "risk": None if axes is None else axes[0],
        "loss": None if axes is None else axes[1],
        "frontier": frontier,
        "rejected": {} if axes is None else _rejected(study, axes, frontier),
    }


def map_axes(study: Compared, risk: str | None = None, loss: str | None = None) -> tuple[str, str] | None:
    """A measure of risk and one of loss that every method has, those asked for or others; None without both."""
    common = [m for m in study.measures if all(all(m in release for release in of) for of in study.figures.values())]
    for asked in (risk, loss):
        if asked is not None and asked not in common:
            raise ParameterError(f"'{asked}' was not measured of every method", did_you_mean(asked, common))
    kinds = {name: study.entries[name].kind for name in common if name in study.entries}
    risks = [WORST_ATTACK] * (WORST_ATTACK in common) + [name for name, kind in kinds.items() if kind == "risk"]
    losses = [LOSS] * (LOSS in common) + [name for name, kind in kinds.items() if kind == "utility"]
    along, upwards = risk or next(iter(risks), None), loss or next(iter(losses), None)
    return (along, upwards) if along and upwards and study.figures else None


def _rejected(study: Compared, axes: tuple[str, str], frontier: list[str]) -> dict[str, str]:
    """Methods that are beaten, each with one of the frontier that is no worse in both; and those that do not count."""
    points = {label: tuple(_cost(study, label, measure) for measure in axes) for label in study.figures}
    return {
        label: UNPROTECTED
        if label in study.unprotected
        else next(
            (one for one in frontier if all(a <= b for a, b in zip(points[one], mine, strict=True))), "several together"
        )
        for label, mine in points.items()
        if label not in frontier
    }


def _cost(study: Compared, label: str, measure: str) -> float:
    mean = float(study.summary(label, measure).mean)
    entry = study.entries.get(measure)
    return -mean if entry is not None and entry.better == "high" else mean


def map_picture(study: Compared | None, risk: str | None = None, loss: str | None = None) -> dict[str, Any]:
    """Risk and loss of every method, with where 95 % of their releases lie."""
    axes = None if study is None else map_axes(study, risk, loss)
    return picture(
        "Risk and loss of the methods",
        "Mean risk and mean loss of each method over its releases; lines hold 95 % of the releases, where there are "
        "five or more. A method on the frontier is beaten by no other in both.",
        None if study is None or axes is None else lambda: _points(study, axes),
        NO_STUDY if study is None else "a measure of risk and one of loss, taken of every method, are needed",
    )


def _points(study: Compared, axes: tuple[str, str]) -> list[Row]:
    frontier, places = study.frontier(*axes), dict.fromkeys(study.unprotected, UNPROTECTED)
    rows: list[Row] = []
    for label in study.figures:
        place = "on the frontier" if label in frontier else places.get(label, "beaten by another")
        rows.append({"label": label, "place": place})
        for axis, measure in zip(("risk", "loss"), axes, strict=True):
            found = study.summary(label, measure)
            ends = {"low": found.low, "high": found.high}
            rows[-1] |= {f"{axis}_name": measure, axis: found.mean}
            rows[-1] |= {f"{axis}_{end}": found.mean if at is None else at for end, at in ends.items()}
    return rows
