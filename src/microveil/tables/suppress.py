"""Secondary suppression: which further cells to hide, so that no sensitive one follows from those that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, ParameterError, check_column
from microveil.core.late import pl
from microveil.core.parameters import Step, validated
from microveil.io.frames.dataframes import open_frame
from microveil.tables.relations import System, relations
from microveil.tables.rules import Rule
from microveil.tables.singletons import Guard, Imagined, with_imagined
from microveil.tables.table import Cell, Table, cell_rows

Zeros = Literal["published", "candidates", "suppressed"]
Singletons = Literal["protected", "ignored"]
Negatives = Literal["absolute", "refused"]

GIVEN = "given"
TRUE = frozenset({"true", "yes", "t", "1", "1.0"})
FALSE = frozenset({"false", "no", "f", "0", "0.0", ""})


class Choices(Step):
    """How cells that are special are treated."""

    zeros: Zeros = Field(
        default="published",
        description="cells that nothing is in: always published, hidden like others where they are worth least "
        "(candidates), or sensitive themselves (suppressed)",
    )
    singletons: Singletons = Field(
        default="protected",
        description="protect hidden cells also from those who are alone in another hidden cell and know its "
        "amount, and counts of one (where zeros can be hidden: of zero) from following from their sum; or not",
    )
    negatives: Negatives = Field(
        default="absolute",
        description="amounts below zero: shares and worth are those of amounts without their sign, or refuse them",
    )


@dataclass(frozen=True, repr=False)
class Suppressed:
    """A table, and which of its published cells are hidden: `primary` for their own sake, and all `suppressed` ones.

    `reasons` has for each cell what made it primary, `secondary`, or nothing.
    """

    table: Table
    primary: Mask
    suppressed: Mask
    reasons: NDArray[np.str_]
    choices: Choices = field(default_factory=Choices)
    warnings: list[str] = field(default_factory=list)

    @property
    def cells(self) -> Any:
        """All published cells: codes, value, and what is hidden. For the publisher's eyes: it has all values."""
        return self.table.frame(primary=self.primary, suppressed=self.suppressed)

    def __repr__(self) -> str:
        hidden, first = np.count_nonzero(self.suppressed), np.count_nonzero(self.primary)
        return f"Suppressed({self.table!r}: {hidden:,} hidden, {first:,} of them primary)"


def suppress(table: Table, *rules: Rule, priority: Any = None, **choices: Any) -> Suppressed:
    """Hide the cells that the rules call sensitive, and as many others as it takes that none can be worked out.

    Cells are gone through from the one most worth showing, which is the largest, to the least. Each is shown unless,
    together with those shown already, it would give a sensitive cell away. `priority` multiplies what a cell is worth:
    a number for each published cell; or a frame (or columns by name) with the dimensions and "priority", for some of
    them; or the name of a column of the cells that the table was made from. Cells of priority infinity are shown in
    any case. `choices` say how zeros, singletons and negative amounts are treated.
    """
    chosen = validated(Choices, choices)
    amounts = table.inner_values if table.contributions is None else table.contributions.amounts
    if chosen.negatives == "refused" and (amounts < 0).any():
        raise DataError("some amounts are negative", "correct them, or choose negatives='absolute'")
    primary, reasons = _primary(table, rules, chosen)
    hiding = Hiding(table, primary, _priorities(table, priority), chosen)
    suppressed = hiding.done()
    reasons[suppressed & ~primary] = "secondary"
    return Suppressed(table, primary, suppressed, reasons, chosen, hiding.warnings)


class Hiding:
    """The search for the cells to hide."""

    def __init__(self, table: Table, primary: Mask, priority: Array, choices: Choices) -> None:
        self.table, self.primary = table, primary
        self.equations = relations(table)
        self.worth = worth(table, np.where(np.isinf(priority), 1.0, priority))
        self.keep = np.isinf(priority)
        self.known = self.keep | (np.diff(table.matrix.indptr) == 0)
        zeros_shown = choices.zeros == "published"
        if zeros_shown:
            self.known |= table.published_counts == 0
        self.guard = Guard(table, primary, not zeros_shown) if choices.singletons == "protected" else None
        self.imagined: list[Imagined] = []
        self.warnings: list[str] = []
        both = np.flatnonzero(self.keep & primary)
        if both.size:
            raise ParameterError(
                f"priority: {both.size} cells that must be shown are sensitive",
                "give them a finite priority, or change the rules",
            )

    def done(self) -> Mask:
        """The cells to hide. Sums that would give something away are imagined as further sensitive cells."""
        while True:
            system = self._system()
            hidden, exposed = system.hidden()
            lost = np.count_nonzero(exposed < self.table.count)
            if lost:
                problem = f"{lost} sensitive cells follow from cells that are shown in any case"
                raise ParameterError(problem, "give fewer cells the priority infinity")
            found = self.guard.given_away(system, hidden) if self.guard else []
            new = [cell for cell in found if cell not in self.imagined]
            if not new:
                break
            self.imagined += new
        if found:
            self.warnings.append(
                f"{len(found)} sums of hidden cells can be worked out by somebody who is alone in one of the cells, "
                "whatever else is hidden: show less of the table, or merge codes"
            )
        return self._grown(system, hidden)[: self.table.count]

    def _system(self) -> System:
        unknowns = self.equations.shape[1] + len(self.imagined)
        secret = np.arange(unknowns) >= self.equations.shape[1]
        secret[: self.table.count] = self.primary
        free = np.arange(unknowns) >= self.table.count
        beyond = (0, unknowns - self.table.count)
        known, worths = np.pad(self.known, beyond), np.pad(self.worth, beyond)
        return System(with_imagined(self.equations, self.imagined), secret, free, known, worths)

    def _grown(self, system: System, hidden: Mask) -> Mask:
        """The hidden cells and those that counts of one or zero need to stay unknown."""
        while self.guard is not None:
            more, enough = self.guard.more_to_hide(system, hidden)
            hidden[more] = True
            if not enough:
                self.warnings.append(
                    "some hidden counts follow from their sum, because all of them are as small as they can be, and "
                    "nothing else that may be hidden prevents it: show less of the table, or merge codes"
                )
            if not enough or not more.size:
                break
        return hidden


def worth(table: Table, priority: Array) -> Array:
    """What it is worth to show each cell: its size; among cells of the same size, that of the cells it overlaps."""
    size = (np.abs(table.published_values) + (0.0 if table.is_magnitude else 1.0)) * priority
    around = table.matrix.astype(np.float64)
    tie = around @ (around.T @ size)
    ranked: Array = size + 0.99 * tie / max(float(tie.max(initial=0.0)), np.finfo(float).tiny)
    return ranked


def _priorities(table: Table, given: Any) -> Array:
    """A number for each published cell."""
    priority = np.ones(table.count)
    if given is None:
        return priority
    if isinstance(given, str):
        if table.from_records:
            raise ParameterError(
                "priority: the table was made from records, which have no cells to be kept",
                "give a frame with the dimensions and a column 'priority'",
            )
        column = check_column("priority", given, table.source.names)
        rows, values = table.rows_of(table.source), table.source.numbers(column)
    elif isinstance(given, list | tuple | np.ndarray):
        rows, values = np.arange(table.count), np.asarray(given, dtype=np.float64)
        if values.shape != (table.count,):
            raise ParameterError(f"priority: {values.size} numbers for {table.count} cells", "give one for each")
    else:
        if isinstance(given, Mapping):
            given = pl.DataFrame(given)
        frame = open_frame(given)
        for name in (*table.dimensions, "priority"):
            check_column("priority", name, frame.names)
        rows, values = table.rows_of(frame), frame.numbers("priority")
    if not (values >= 0).all():
        raise ParameterError("priority: some are missing or negative", "give numbers from zero on, or infinity")
    priority[rows] = values
    return priority


def _primary(table: Table, rules: Sequence[Rule], choices: Choices) -> tuple[Mask, NDArray[Any]]:
    """The sensitive cells, and which rule says so first."""
    if not rules or not all(isinstance(rule, Rule) for rule in rules):
        raise ParameterError(
            "rules: say which cells are sensitive",
            "such as SmallCount(4), --min-count 4, or Dominance(2, 85), --dominance 2:85",
        )
    primary = np.zeros(table.count, dtype=bool)
    reasons = np.full(table.count, "", dtype="U32")
    for rule in rules:
        found = rule.primary(table) & ~primary
        reasons[found] = type(rule).__name__
        primary |= found
    if choices.zeros == "suppressed":
        found = (table.published_counts == 0) & (np.diff(table.matrix.indptr) > 0) & ~primary
        reasons[found] = "zero"
        primary |= found
    return primary, reasons


# A suppression that was decided elsewhere, by hand or by other software: to be filled and audited like our own.


def as_suppressed(table: Table, cells: Iterable[Cell], primary: Iterable[Cell] = ()) -> Suppressed:
    """A table of which these cells are hidden, the `primary` ones among them for their own sake."""
    first, hidden = np.zeros(table.count, dtype=bool), np.zeros(table.count, dtype=bool)
    first[cell_rows(table, primary)] = True
    hidden[cell_rows(table, cells)] = True
    return _given(table, first, hidden | first)


def from_frame(table: Table, frame: Any) -> Suppressed:
    """A table hidden as a frame of its cells says: the dimensions, `suppressed` and, if it is there, `primary`.

    Cells that the frame does not have are published.
    """
    source = open_frame(frame)
    for name in (*table.dimensions, "suppressed"):
        check_column("pattern", name, source.names)
    place = table.rows_of(source)
    marks = {}
    for name in ("suppressed", "primary"):
        marks[name] = np.zeros(table.count, dtype=bool)
        if name in source.names:
            texts = [word.strip().lower() for word in source.words(name, np.arange(source.count))]
            if not set(texts) <= TRUE | FALSE:
                problem = f"pattern: column '{name}' holds neither true nor false in every row"
                raise DataError(problem, "write true or false")
            marks[name][place] = [text in TRUE for text in texts]
    return _given(table, marks["primary"], marks["suppressed"] | marks["primary"])


def _given(table: Table, primary: Mask, hidden: Mask) -> Suppressed:
    reasons = np.full(table.count, "", dtype=object)
    reasons[hidden] = "secondary"
    reasons[primary] = GIVEN
    return Suppressed(table, primary, hidden, reasons)
