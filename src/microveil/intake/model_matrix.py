"""The model matrix: the columns that confidential ones are regressed on, with an intercept.

A product of numbers is one column. With labels it is a column for each combination of them, which is 0 in all other
rows. The combinations of some columns say all that fewer of them say. So a term is taken apart into what each set of
its columns adds to the smaller ones: the combinations in which no label is the first of its column. Terms that share a
part then share its columns, and no column is there twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from microveil.core.arrays import FIRST_ROWS, Array, Index
from microveil.core.errors import DataError
from microveil.core.fewest_records import FEWEST_RECORDS, pooled
from microveil.core.keys import grouped
from microveil.core.table import Matrix
from microveil.intake.formula import Terms
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import SMALLEST_TABLE, check_unit, check_values

MOST_LEVELS = 200
"""Distinct labels of a column, or of columns that are crossed; more would be a name or a key, and a regression on it
fits everything."""


@dataclass(frozen=True, repr=False)
class ModelMatrix:
    """Its columns, each called by the columns it was made of; `plain` ones are columns of the frame, by number.

    Plain ones that are in no product are not checked yet: the caller profiles all columns at once.
    `crossed` are the columns of numbers that are in products only; `rare` tells how many labels of a column, or
    combinations of labels, were pooled because few records have them.
    """

    names: tuple[str, ...]
    columns: list[Array]
    plain: Mapping[int, str]
    crossed: Mapping[str, Array]
    rare: Mapping[str, int]


class Part(NamedTuple):
    """A product of numbers for each combination of labels."""

    labels: tuple[str, ...]
    numbers: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join((*self.labels, *self.numbers))


class LabelGroups(NamedTuple):
    """Combinations of labels: the number of that of each row, which have a column, and how many were pooled."""

    numbers: Index
    chosen: Index
    rare: int


def model_matrix(frame: Frame, terms: Terms, role: str) -> ModelMatrix:
    """Read the columns of the terms, check them, and multiply them out."""
    factors = dict.fromkeys(factor for product in terms.products for factor in product)
    numbers = {factor.column: frame.numbers(factor.column) for factor in factors if not factor.labels}
    labels = {factor.column: _labels(frame, role, factor.column) for factor in factors if factor.labels}
    parts = _parts(terms)
    cells: dict[tuple[str, ...], LabelGroups] = {}
    for part in parts:
        if part.labels and part.labels not in cells:
            # Each product of numbers ties the residuals of a combination down once, as the mean of them does.
            needed = FEWEST_RECORDS - 1 + sum(other.labels == part.labels for other in parts)
            cells[part.labels] = _cells(role, {name: labels[name] for name in part.labels}, needed)
    rare = {":".join(names): found.rare for names, found in cells.items() if found.rare}
    check_room(frame.count, role, sum(cells[part.labels].chosen.size if part.labels else 1 for part in parts))
    plain = [name for name, values in numbers.items() if Part((), (name,)) in parts and _varies(values)]
    for name in {name for part in parts if part.labels or len(part.numbers) > 1 for name in part.numbers}:
        values = numbers[name]
        low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
        check_values(role, name, Matrix([values]), 0, low, high)
        if np.isnan(values).any():
            raise missing_cells(role, name)
    names, columns = list(plain), [numbers[name] for name in plain]
    for part in parts:
        if not part.labels and len(part.numbers) == 1:
            continue  # plain
        product = _product(role, part, numbers, parts)
        for column in _columns(product, cells.get(part.labels)):
            if column.min() < column.max():
                names.append(str(part))
                columns.append(column)
    crossed = {name: values for name, values in numbers.items() if name not in plain}
    return ModelMatrix(tuple(names), columns, dict(enumerate(plain)), crossed, rare)


def _labels(frame: Frame, role: str, name: str) -> Index:
    if frame.is_numeric(name) and np.isnan(frame.numbers(name)).any():
        raise missing_cells(role, name)
    return frame.labels(name)


def _varies(values: Array) -> bool:
    """Is the column not constant? The first cells mostly tell; what is missing is reported later."""
    return bool((values[:FIRST_ROWS] != values[0]).any() or (values != values[0]).any())


def missing_cells(role: str, name: str) -> DataError:
    """The error for cells that are missing in a column to regress on."""
    return DataError(f"{role}: column '{name}' has missing cells", f"fill them or leave the column out of {role}")


def check_room(rows: int, role: str, width: int) -> None:
    """Each column ties the residuals down once; as many rows more are needed."""
    needed = SMALLEST_TABLE + width
    if width and rows < needed:
        raise DataError(
            f"{role}: {rows} rows are too few for these columns, at least {needed} are needed",
            f"use fewer {role} columns or terms, or group the labels of text columns",
        )


def _parts(terms: Terms) -> list[Part]:
    """The parts of all terms, each once; those with fewer columns of labels come first within a term."""
    found: dict[Part, None] = {}
    for product in terms.products:
        labels = [factor.column for factor in product if factor.labels]
        numbers = tuple(factor.column for factor in product if not factor.labels)
        found |= {Part(some, numbers): None for size in range(len(labels) + 1) for some in combinations(labels, size)}
    found.pop(Part((), ()), None)  # the intercept
    return list(found)


def _cells(role: str, labels: Mapping[str, Index], needed: int) -> LabelGroups:
    """The combinations of labels that occur."""
    first, *others = labels.values()
    numbers = grouped(np.column_stack([first, *others]))[1]
    check_levels(role, list(labels), int(numbers.max(initial=-1)) + 1)
    if not others:
        # The rare labels of one column are one label; of several, they have what their labels have one by one.
        numbers, rare = pooled(first, needed)
        return LabelGroups(numbers, np.flatnonzero(np.arange(numbers.max() + 1) != numbers[np.argmin(first)]), rare)
    inner = np.logical_and.reduce([codes > 0 for codes in labels.values()])
    cells, many = np.bincount(numbers, weights=inner) > 0, np.bincount(numbers) >= needed
    return LabelGroups(numbers, np.flatnonzero(cells & many), int(np.count_nonzero(cells & ~many)))


def check_levels(role: str, names: Sequence[str], count: int) -> None:
    """Refuse labels, or combinations of labels, that are too many."""
    alone = len(names) == 1
    labels, of = ("labels", f"column '{names[0]}'") if alone else ("combinations of labels", f"'{':'.join(names)}'")
    if count > MOST_LEVELS:
        hint = f"group them, or leave the column out of {role}" if alone else "group labels, or do not cross them"
        raise DataError(f"{role}: {of} has {count} different {labels}, more than {MOST_LEVELS}", hint)


def check_rare(role: str, name: str, rows: Index) -> None:
    """Refuse labels of few rows, where they cannot be pooled: the sums of a rare label tell its records."""
    rare = int(np.count_nonzero(rows < FEWEST_RECORDS))
    if rare:
        raise DataError(
            f"{role}: {rare} labels of column '{name}' have fewer than {FEWEST_RECORDS} rows",
            f"group them, or leave the column out of {role}",
        )


def _product(role: str, part: Part, numbers: Mapping[str, Array], parts: Collection[Part]) -> Array | None:
    """The `numbers` of a `part`, one of all `parts`, multiplied; None if it has none. `role` is for errors."""
    if len(part.numbers) + len(part.labels) == 1 or not part.numbers:
        return numbers[part.numbers[0]] if part.numbers else None
    centred = _may_be_centred(part, parts)
    factors = [numbers[name] for name in part.numbers]
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.ones_like(factors[0])
        for values in factors:
            product *= values - np.ascontiguousarray(values).mean() if centred else values
    check_unit(role, str(part), float(product.min()), float(product.max()))
    return product


def _may_be_centred(part: Part, parts: Collection[Part]) -> bool:
    """Are all smaller products there too, so that the numbers' means change nothing of what can be fitted?

    Then they are taken off, for figures far from zero have products that hardly differ from the figures.
    """
    smaller = (some for size in range(len(part.numbers)) for some in combinations(part.numbers, size))
    return all(Part(part.labels, some) in parts or not (part.labels or some) for some in smaller)


def _columns(product: Array | None, cells: LabelGroups | None) -> Iterator[Array]:
    """The columns of a part: the product in the rows of each combination, 0 in the others."""
    if cells is None:
        if product is not None:
            yield product
        return
    for number in cells.chosen:
        here = cells.numbers == number
        yield here.astype(np.float64) if product is None else np.where(here, product, 0.0)
