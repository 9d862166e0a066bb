"""What notebooks show of releases, assessments, studies, advice and descriptions: first screens and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from microveil.core.errors import ParameterError, one_of
from microveil.report import plots, screens
from microveil.report.html import screen_html
from microveil.report.internal import attack_picture, internal_plots
from microveil.report.material import Material, picture
from microveil.report.study import map_picture, study_contents

NAMES = {"histograms": "distributions", "attacks": "attacks", "losses": "losses", "correlations": "correlations"}
NAMES |= {"group_means": "groups", "two_way": "labels", "scree": "components", "missing": "missing", "ru_map": "map"}
"""Pictures of reports, and what they are called in `plot`."""


def html_of(shown: Any) -> str | None:
    """The first screen of something that has one."""
    try:
        return screen_html(_screens()[type(shown).__name__](shown))
    except ImportError:  # without the library that fills in pages, notebooks show the text
        return None


def chart_of(shown: Any, name: str | None) -> Any:
    """A picture of something that has some."""
    found = {NAMES[key]: (key, one) for key, one in _pictures(shown).items() if key in NAMES}
    if name is not None and name not in found:
        raise ParameterError(f"picture: there is no '{name}'", f"it is {one_of(found)}")
    # Without a name, the first that can be drawn.
    chosen = name or next((one for one, (_, drawn) in found.items() if not drawn["absent"]), next(iter(found)))
    key, drawn = found[chosen]
    if drawn["absent"]:
        raise ParameterError(f"picture: '{chosen}' cannot be drawn: {drawn['absent']}", "name another")
    return plots.chart(key, drawn["rows"])


def _screens() -> dict[str, Callable[[Any], Mapping[str, Any]]]:
    return {
        "Release": lambda release: screens.of_release(_material(release)),
        "Assessment": screens.of_assessment,
        "Study": lambda study: screens.of_study(study, study_contents(study)),
        "Advice": screens.of_advice,
        "Description": screens.of_description,
    }


def _pictures(shown: Any) -> dict[str, dict[str, Any]]:
    kind = type(shown).__name__
    if kind == "Release":
        return internal_plots(_material(shown))
    if kind == "Assessment":
        return {"attacks": attack_picture(shown)}
    if kind == "Description":
        return {"missing": _missing(shown)}
    return {"ru_map": map_picture(getattr(shown, "study", shown))}


def _material(release: Any) -> Material:
    """What a report would be made of; of a stored release, what it kept."""
    of = getattr(release.writer, "material", None)
    return Material(release) if of is None else of(release)


def _missing(description: Any) -> dict[str, Any]:
    return picture(
        "Missing cells",
        "Share of the cells of each column that are missing or coded.",
        lambda: [
            {"column": one.name, "missing": (one.missing + one.coded) / max(description.rows, 1)}
            for one in description.columns
        ],
    )
