"""What a paper prints: its tables and figures, read from `printed/*.toml`, and which run makes ours.

A file has a paper; `[tolerances]` and `[notes]`, which its items use by name; and an `[[item]]` per table or figure:

    [[item]]
    id, title, place, needs, notes     texts
    run = "measured"                   the function that makes our figures, of those in `papers.RUNS`
    least_repeats = 2                  releases that it takes at least; 0 where nothing is drawn
    takes_image = true                 it is about a picture that the user has to give
    claims = [...]                     what the text says of a picture; the run says of each whether ours shows it

    [item.parameters]                  of the run

    [[item.figures]]                   a block of figures: `rows` has a list of values for each row (nan: not printed),
    columns, tolerance, rows           or only names, where nothing is printed; a tolerance for all columns or for each

    [[item.exceptions]]                what some rows (and columns, else all) have of their own: tolerance, remark,
    rows, columns, ...                 misprint (why the printed figure is wrong) and recomputed (what it ought to be)
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

from microveil.studies.compare import Progress

Place = tuple[str, str]
"""The row and the column of a figure."""

TEXT = "the text"
"""The row of what a paper says of a picture."""

ENDS = {"2.5 %": 2.5, "97.5 %": 97.5}
"""The ends of the papers' intervals, which are percentiles of releases: `DR, 2.5 %` is the lower one of `DR`."""


@dataclass(frozen=True)
class Tolerance:
    """How near ours has to come to what is printed, and why.

    `absolute` is a difference: what the printed digits leave open. `mean_of`: the paper prints a mean of so many
    releases, so three standard errors of our mean are allowed as well (of as many releases as the paper's, if ours are
    more). `factor` allows a ratio instead, and what is within it has the same size: that is no agreement. `one_draw`:
    the paper prints a single draw, so the spread of our draws is allowed as well. `percentile_of`: it prints the 2.5th
    or 97.5th percentile of so many releases, so the scatter of such percentiles is allowed.
    """

    reason: str
    absolute: float = 0.0
    mean_of: int = 0
    factor: float = 1.0
    one_draw: bool = False
    percentile_of: int = 0


SAYS = Tolerance("the text says so (1), and ours show it (1) or not (0); what shows it is in the notes of the table")
SHOWN = Tolerance("the figure has no numbers")


@dataclass(frozen=True)
class Printed:
    """One printed figure; `value` is None where we show a figure that the paper does not have.

    `misprint` says why the printed value is wrong; `recomputed` is what it ought to be, and ours is compared with that.
    `percentile` of our releases is ours; their mean, if it is None.
    """

    row: str
    figure: str
    value: float | None
    tolerance: Tolerance
    misprint: str = ""
    recomputed: float | None = None
    remark: str = ""
    percentile: float | None = None


@dataclass(frozen=True)
class RunOptions:
    """How an item is to be run."""

    repeats: int
    seed: int | None
    workers: int | None
    progress: Progress
    image: Path | None = None
    """A picture that the user has."""

    store: Path | None = None
    """Where studies keep their releases, so that another table is made of the same ones."""


@dataclass(frozen=True)
class Found:
    """Our figures: the values of all releases by row and column.

    `absent` says of a row why it has none, `otherwise` of all other rows that have none. `claims` says of each claim of
    the text, in their order, whether ours shows it.
    """

    values: Mapping[Place, Sequence[float]]
    absent: Mapping[str, str] = field(default_factory=dict)
    claims: Sequence[bool] = ()
    otherwise: str = "we have no such figure"


@dataclass(frozen=True, repr=False)
class PublishedItem:
    """A table or figure of a paper. `least_repeats` is 0 where nothing is drawn.

    `on_page` has the columns of ours that the page of all papers shows, where the paper prints none.
    """

    id: str
    title: str
    paper: str
    place: str
    needs: str
    printed: Sequence[Printed]
    run: Callable[[RunOptions], Found]
    least_repeats: int = 1
    takes_image: bool = False
    notes: Sequence[str] = ()
    on_page: Sequence[str] = ()

    @property
    def draws(self) -> bool:
        """Is anything of it drawn at random?"""
        return self.least_repeats > 0

    @property
    def misprints(self) -> list[Printed]:
        """The printed figures that are known to be wrong."""
        return [figure for figure in self.printed if figure.misprint]

    @property
    def claims(self) -> list[str]:
        """What the text says."""
        return [figure.figure for figure in self.printed if figure.row == TEXT]


class NotRunError(Exception):
    """An item cannot be run here: a file or a package is not there."""


def read_items(path: Path, runs: Mapping[str, Callable[..., Found]]) -> Iterator[PublishedItem]:
    """The items of a paper, in the order of its file; `runs` has the functions that they name."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tolerances = {"no_numbers": SHOWN}
    tolerances |= {name: _tolerance(given) for name, given in content.get("tolerances", {}).items()}
    shared = content.get("notes", {})
    for item in content["item"]:
        blocks, exceptions, claims = (item.pop(key, []) for key in ("figures", "exceptions", "claims"))
        figures = {(one.row, one.figure): one for block in blocks for one in _block(tolerances, **block)}
        figures |= {(TEXT, claim): Printed(TEXT, claim, 1, SAYS) for claim in claims}
        for exception in exceptions:
            _except(figures, tolerances, **exception)
        notes = [shared.get(note, note) for note in item.pop("notes", [])]
        run = partial(runs[item.pop("run")], **item.pop("parameters", {}))
        yield PublishedItem(paper=content["paper"], printed=list(figures.values()), run=run, notes=notes, **item)


def printed_values(path: Path, table: str) -> dict[Place, float]:
    """What an item of a file prints, by row and column; for runs that compare other items' figures with ours."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    (blocks,) = (item["figures"] for item in content["item"] if item["id"] == table)
    return {
        (row, column): value
        for block in blocks
        for row, values in block["rows"].items()
        for column, value in zip(block["columns"], values, strict=True)
    }


def interval_end(column: str) -> tuple[str, float | None]:
    """The figure whose releases a column is taken from, and the percentile of them if it is an end of an interval."""
    figure, _, word = column.rpartition(", ")
    return (figure, ENDS[word]) if word in ENDS and figure else (column, None)


def _tolerance(given: Mapping[str, Any]) -> Tolerance:
    """As given; or what so many printed decimals leave open, also of a mean; or the scatter of percentiles."""
    if "reason" in given:
        return Tolerance(**given)
    if "decimals" in given:
        decimals, units, mean_of = given["decimals"], given.get("units", 1), given.get("mean_of", 0)
        unit = "half a unit" if units == 1 else f"half of {units} units"
        reason = f"{unit} of the last printed decimal ({decimals})"
        if mean_of:
            reason += f", and three standard errors of our mean; the paper's is of {mean_of:,} releases"
        return Tolerance(reason, 0.5000001 * units * 10.0**-decimals, mean_of)
    of = given["percentile_of"]
    reason = f"what percentiles scatter by, ours of as many releases as asked for and the paper's of {of:,}, at 99.7 %"
    return Tolerance(f"{reason}, if releases were normal", 0.00005, percentile_of=of)


def _block(
    tolerances: Mapping[str, Tolerance],
    columns: Sequence[str],
    rows: Mapping[str, Sequence[float]] | Sequence[str],
    tolerance: str | Sequence[str] = "no_numbers",
) -> Iterator[Printed]:
    """The figures of a block, row by row: `rows` has values for `columns`; `tolerance` names some of `tolerances`."""
    names = [tolerance] * len(columns) if isinstance(tolerance, str) else tolerance
    printed = rows if isinstance(rows, Mapping) else dict.fromkeys(rows, [float("nan")] * len(columns))
    for row, values in printed.items():
        for column, value, name in zip(columns, values, names, strict=True):
            shown = None if isnan(value) else value
            yield Printed(row, column, shown, tolerances[name], percentile=interval_end(column)[1])


def _except(
    figures: dict[Place, Printed],
    tolerances: Mapping[str, Tolerance],
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    **changes: Any,
) -> None:
    """Change what these rows have of their own in the `figures`, in all their columns or in those that are named."""
    if "tolerance" in changes:
        changes["tolerance"] = tolerances[changes["tolerance"]]
    for place, one in figures.items():
        if one.row in rows and (columns is None or one.figure in columns):
            figures[place] = replace(one, **changes)
