"""A report as two texts: one HTML file that needs nothing from anywhere, and its JSON twin.

Both are made from the same plain data, so they agree; pictures are in the twin as their numbers. Two versions.
Internal: everything, the seed included, so that the release can be repeated. Public: what was done, what is kept and
what it costs; `public.py` says what that leaves out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from microveil.core.errors import ParameterError, as_typed, one_of
from microveil.report import plots
from microveil.report.internal import internal_contents
from microveil.report.material import Compared, Material, heading, strict
from microveil.report.public import public_contents
from microveil.report.study import map_picture, study_report
from microveil.report.tables import ReportedTable, table_report
from microveil.report.verdict import digits, percent
from microveil.storage.atomic import atomic_targets

if TYPE_CHECKING:
    from jinja2 import Environment

NO_PICTURES = "what draws pictures is not installed: pip install 'microveil[report]'"


@dataclass(frozen=True, repr=False)
class Texts:
    """A report and its twin."""

    html: str
    json: str


def twin(path: Path) -> Path:
    """Where the JSON twin goes: beside the report, under its name."""
    if path.suffix.lower() == ".json":
        raise ParameterError("a report is an HTML file, and its JSON twin has the name .json", "call the report .html")
    return path.parent / f"{path.stem}.json"


def release_texts(material: Material, audience: str) -> Texts:
    """The report of a release for an audience."""
    if audience == "public":
        return _texts("public.html.j2", public_contents(material))
    return _texts("internal.html.j2", internal_contents(material))


def study_texts(study: Compared) -> Texts:
    """The report of a comparison of methods."""
    return _texts("study.html.j2", study_report(study))


def study_map(study: Compared, path: Path | None, risk: str | None, loss: str | None) -> Any:
    """The map of risk and loss as an altair chart; and as a picture in a file, if one is named."""
    found = map_picture(study, risk, loss)
    if found["absent"]:
        raise ParameterError(f"there is no map: {found['absent']}", "compare with measures of both kinds")
    if path is not None:
        with atomic_targets([path]) as (temporary,):
            temporary.write_text(_PICTURE_FILES[_picture_suffix(path)](found), encoding="utf-8")
    return plots.chart("ru_map", found["rows"])


def _picture_suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in _PICTURE_FILES:
        raise ParameterError(f"path: a picture cannot be a '{suffix}' file", f"name one {one_of(_PICTURE_FILES)}")
    return suffix


def _svg(found: Mapping[str, Any]) -> str:
    return plots.as_file(plots.draw("ru_map", found["title"], found["description"], found["rows"]))


_PICTURE_FILES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    ".svg": _svg,
    ".html": lambda found: _page("picture.html.j2", {"title": found["title"], "plots": {"ru_map": found}}),
}


def assessment_texts(judged: Any) -> Texts:
    """The figures of an assessment, each with its scale."""
    return _texts("assessment.html.j2", {"report": heading("internal"), "plots": {}, **judged.to_dict()})


def table_texts(table: ReportedTable) -> Texts:
    """The report of a suppressed table."""
    return _texts("table.html.j2", table_report(table))


def write_texts(texts: Texts, path: Path, data_path: Path | None = None, *, private: bool = False) -> None:
    """Write a report and its twin, both or neither; if `private`, for their owner only."""
    both = [path, twin(path) if data_path is None else data_path]
    with atomic_targets(both, private=both if private else ()) as (page, data):
        page.write_text(texts.html, encoding="utf-8")
        data.write_text(texts.json, encoding="utf-8")


def _texts(template: str, contents: Mapping[str, Any]) -> Texts:
    data = strict(contents)
    return Texts(_page(template, data), json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


@cache
def _environment() -> Environment:
    """The templates, with what they call; kept, because both reports of a release share some."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("microveil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=digits, share=percent, plain=_plain, typed=as_typed, words=lambda name: str(name).replace("_", " ")
    )
    return environment


def _page(template: str, contents: dict[str, Any]) -> str:
    # A mark shows its numbers where the reader may know them all.
    hover = contents.get("report", {}).get("audience") == "internal"
    pictures = {name: _drawn(name, found, hover=hover) for name, found in contents.get("plots", {}).items()}
    return _environment().get_template(template).render(**contents, pictures=pictures)


def _drawn(name: str, found: Mapping[str, Any], *, hover: bool) -> dict[str, Any]:
    """A picture as markup, or the reason why it is not there: a report never fails because of a picture."""
    from markupsafe import Markup

    absent = found["absent"]
    if not absent:
        try:
            svg = plots.draw(name, found["title"], found["description"], found["rows"], hover=hover)
            return {**found, "svg": Markup(svg)}  # noqa: S704 - the library that draws escapes names of columns
        except ImportError:
            absent = NO_PICTURES
        except Exception as fault:  # whatever the library did not foresee; its text may quote values
            absent = f"it could not be drawn ({type(fault).__name__})"
    return {**found, "absent": absent, "svg": ""}


def _plain(value: Any) -> str:
    """A setting as people write it: lists with commas, yes and no, a dash for none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_plain(item)}" for name, item in value.items() if item not in (None, [], {})) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "-"
    if isinstance(value, float):
        return digits(value)
    return "-" if value is None or value == "" else str(value)


def screen_html(screen: Mapping[str, Any]) -> str:
    """A first screen by itself, for notebooks."""
    return _page("screen_alone.html.j2", {"screen": strict(screen)})
