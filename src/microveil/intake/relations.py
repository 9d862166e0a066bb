"""What columns that are no plain amounts have to do with one another, by the searches that `protect` makes.

Labels that follow from labels; columns that follow from dates, numbers and the units of the rows; labels that never
meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from microveil.intake.declared import entry_of, flags_among, level_words
from microveil.intake.from_dates import YEARS, find_date_rules, find_dated_labels
from microveil.intake.from_values import find_value_rules
from microveil.intake.kinds import LABELS, NUMBERS, ColumnKind
from microveil.intake.unit_rules import PLACE, SIZE, UnitRule, find_unit_rules, smallest_first
from microveil.io.frames.dataframes import Frame
from microveil.rules.label_rules import LabelRules


@dataclass(frozen=True)
class Relations:
    """Columns that follow from others, and labels that never meet, as the dictionary of the columns says it.

    What follows has the `column`, what it `follows_from`, the rows (of the size of units: the units) that are
    `exceptions`, and of dates and units the `part` that it is.
    """

    follows: list[dict[str, Any]] = field(default_factory=list)
    impossible: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """What follows, as a person would say it."""
        said = []
        for entry in self.follows:
            how = f": {entry['part']}" if entry.get("part") else ""
            link = " until" if entry.get("part") == YEARS else ""
            other = f"{link} {entry['until']}" if entry.get("until") else ""
            units = "units" if entry.get("part") == SIZE else "rows"
            but = f" (but for {entry['exceptions']} {units})" if entry["exceptions"] else ""
            said.append(f"{entry['column']} follows from {entry['follows_from']}{how}{other}{but}")
        return said

    @property
    def pairs(self) -> list[str]:
        """Labels that never meet, likewise."""
        return [
            " and ".join(f"{c} = {label}" for c, label in zip(entry["columns"], entry["labels"], strict=True))
            for entry in self.impossible
        ]

    def entries(self) -> dict[str, dict[str, Any]]:
        """What the dictionary says of columns that follow: what is kept, so not sizes that have exceptions."""
        kept = [entry for entry in self.follows if not (entry.get("part") and entry["exceptions"])]
        return {
            entry["column"]: {key: value for key, value in entry.items() if key != "column" and value} for entry in kept
        }


def find_relations(frame: Frame, kinds: Mapping[str, ColumnKind]) -> Relations:
    """The relations of the columns of a table whose dates count as numbers."""
    numbers = [name for name, found in kinds.items() if found.kind in NUMBERS and frame.is_numeric(name)]
    labels = [name for name, found in kinds.items() if found.kind in LABELS]
    of_dates = [*find_date_rules(frame, numbers), *find_dated_labels(frame, labels)] if frame.times else []
    of_units: list[UnitRule] = []
    unit = next(iter(smallest_first(frame, [name for name, found in kinds.items() if found.kind == "unit"])), None)
    if unit is not None and not frame.missing(unit):
        left = [name for name in (*numbers, *frame.times, *labels) if name not in {rule.column for rule in of_dates}]
        of_units = find_unit_rules(frame, unit, left, numbers, labels)
    computed = {rule.column for rule in of_dates} | {rule.column for rule in of_units}
    left = [name for name in numbers if name not in computed]
    labels = [name for name in labels if name not in computed]
    of_values = find_value_rules(frame, left, dict.fromkeys(left, False) | dict.fromkeys(labels, True))
    computed |= {rule.column for rule in of_values}
    labels = [name for name in labels if name not in computed]
    stay = [rule.column for rule in of_units if rule.part == PLACE][:1] if labels else []
    stay += flags_among(frame, [name for name in numbers if name not in computed]) if labels else []
    labels = [*stay, *labels]
    rules = LabelRules.among([frame.labels(name) for name in labels], range(len(stay)))
    follows: list[dict[str, Any]] = [
        {"column": labels[rule.column], "follows_from": labels[rule.source], "exceptions": rule.exceptions}
        for rule in rules.dependencies
    ]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": 0} for rule in of_dates]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": 0} for rule in of_values]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": rule.exceptions} for rule in of_units]
    words = {j: level_words(frame, labels[j]) for pair in rules.pairs for j in pair.columns}
    impossible = [
        {
            "columns": [labels[j] for j in pair.columns],
            "labels": [words[j][level] for j, level in zip(pair.columns, pair.levels, strict=True)],
        }
        for pair in rules.pairs
    ]
    return Relations(follows, impossible)
