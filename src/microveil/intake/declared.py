"""What a dictionary declares of labels, and of columns that follow from dates and units; checked against the data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import numpy as np

from microveil.core.arrays import FIRST_ROWS, Array, Index
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.intake.from_dates import DateRule
from microveil.intake.from_values import ValueRule
from microveil.intake.unit_rules import UnitRule
from microveil.io.dictionary import Dictionary
from microveil.io.frames.dataframes import Frame
from microveil.rules.label_rules import Dependency, ImpossiblePair, LabelRules
from microveil.storage.atomic import shown

ComputedColumn = DateRule | UnitRule | ValueRule
"""How a column follows from others, by which it is computed anew."""

Computed = TypeVar("Computed", bound=ComputedColumn)


def rules_of_labels(
    frame: Frame, names: Sequence[str], dictionary: Dictionary, *, inferred: bool, stay: Collection[int] = ()
) -> LabelRules:
    """The rules of columns of labels: found, or those that the dictionary declares.

    Args:
        frame: the table.
        names: the columns of labels.
        dictionary: what is declared.
        inferred: whether rules are to be found in the data instead.
        stay: columns, by number, that are released as they are.
    """
    codes = [frame.labels(name) for name in names]
    if inferred:
        return LabelRules.among(codes, stay)
    rules = [
        _dependency(names, codes, name, dictionary)
        for name in names
        if name in dictionary.columns and dictionary.columns[name].follows_from and name not in dictionary.computed
    ]
    if {rule.column for rule in rules} & {rule.source for rule in rules}:
        raise ParameterError(
            "rules: a column of labels follows from one that follows itself", "name the one that all follow from"
        )
    pairs = [
        ImpossiblePair((names.index(entry.columns[0]), names.index(entry.columns[1])), levels)
        for entry in dictionary.impossible
        if {*entry.columns} <= {*names} and (levels := _levels(frame, entry.columns, entry.labels)) is not None
    ]
    for pair in pairs:
        together = [codes[j] == level for j, level in zip(pair.columns, pair.levels, strict=True)]
        if count := int(np.count_nonzero(together[0] & together[1])):
            a, b = (shown(names[j]) for j in pair.columns)
            raise DataError(
                f"rules: {count} rows have labels of {a} and {b} that are declared impossible together",
                "correct them, or take the pair out",
            )
    return LabelRules(tuple(codes), rules, pairs, stay)


def flags_among(numbers: Callable[[str], Array], names: Sequence[str]) -> list[str]:
    """Columns of numbers that have two values, and no missing cell: yes and no.

    They are perturbed as numbers; labels that follow from them, or never meet one of them, do so in a release, too.
    Of more values, the extreme ones never meet some labels, which is no rule.
    """
    found = []
    for name in names:
        values = numbers(name)
        some = values[:: max(1, values.size // FIRST_ROWS)]
        low, high = some.min(), some.max()  # NaN, if one is missing
        if ((some == low) | (some == high)).all() and ((values == low) | (values == high)).all() and low < high:
            found.append(name)
    return found


def _dependency(names: Sequence[str], codes: Sequence[Index], name: str, dictionary: Dictionary) -> Dependency:
    """What a `dictionary` declares of a column (`name`) of labels; `names` and `codes` are those of all of them."""
    entry = dictionary.columns[name]
    if entry.follows_from not in names or entry.follows_from == name:
        raise ParameterError(
            f"rules: {shown(name)} follows from {shown(str(entry.follows_from))}, which is not protected as labels",
            "name another column of labels that is, or take follows_from out",
        )
    column, source = names.index(name), names.index(entry.follows_from)
    width = int(codes[column].max()) + 1
    counts = np.bincount(codes[source] * width + codes[column], minlength=(int(codes[source].max()) + 1) * width)
    table = counts.reshape(-1, width)
    exceptions = int(codes[column].size - table.max(axis=1).sum())
    if exceptions > entry.exceptions:
        raise DataError(
            f"rules: {shown(name)} does not follow from {shown(entry.follows_from)} in {exceptions} rows",
            f"correct them, take follows_from out, or say exceptions = {exceptions} to have it in every row",
        )
    return Dependency(column, source, table.argmax(axis=1).astype(np.intp), exceptions)


def _levels(frame: Frame, columns: Sequence[str], labels: Sequence[str]) -> tuple[int, int] | None:
    """The numbers of two labels; None if one does not occur, so that the pair cannot either."""
    words = [level_words(frame, name) for name in columns]
    if any(label not in known for label, known in zip(labels, words, strict=True)):
        return None
    return words[0].index(labels[0]), words[1].index(labels[1])


def level_words(frame: Frame, name: str) -> list[str]:
    """The labels of a column as text, in the order of their numbers."""
    return frame.words(name, np.unique(frame.labels(name), return_index=True)[1])


def check_declared(dictionary: Dictionary, found: Sequence[Computed]) -> list[Computed]:
    """Of the rules that hold, those that are declared; an error if one that is declared does not hold."""
    by_column = {rule.column: rule for rule in found}
    for name, entry in dictionary.computed.items():
        rule = by_column.get(name)
        said = None if rule is None else entry_of(rule)
        if said is None:
            raise DataError(
                f"rules: {shown(name)} does not follow from {shown(str(entry.follows_from))} in every row, or is not "
                "protected",
                "correct the rows, or take follows_from out",
            )
        wanted = {key: value for key in ("follows_from", "part", "until") if (value := getattr(entry, key))}
        if said != wanted:
            raise DataError(
                f"rules: {shown(name)} is not what the dictionary says of it",
                did_you_mean(str(entry.part), [str(said["part"])]) or "`microveil describe` tells what it follows from",
            )
    return [rule for rule in found if rule.column in dictionary.computed]


def entry_of(rule: ComputedColumn) -> dict[str, str]:
    """What a dictionary says of a column that follows from dates, units or numbers."""
    if isinstance(rule, ValueRule):
        return {"follows_from": rule.source, "part": rule.part}
    if isinstance(rule, DateRule):
        source, until = rule.date, rule.until
    else:
        source, until = rule.unit, rule.of
    return {"follows_from": source, "part": rule.part, **({} if until is None else {"until": until})}
