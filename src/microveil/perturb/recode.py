"""Recoding: extremes, fine numbers and fine labels become coarser ones, the same for all records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from microveil.core.errors import DataError, ParameterError
from microveil.core.keys import Codes
from microveil.perturb.base import LabelPerturbation, Labels, label_text

OTHERS = "*"
"""In groups: all labels that are not named."""


class Recode(LabelPerturbation):
    """Make columns coarser: cap amounts, put numbers into bands and labels into groups; nothing is random.

    The columns that the parameters name are treated, and no others. Capped numbers keep the type of their column; bands
    are text, such as 20-29. Groups come as a mapping, or as the path of a table whose first column has the labels and
    whose second column says what they become; `"*"` stands for all labels that are not named.
    """

    reference: ClassVar[str] = "Willenborg and de Waal (2001), Elements of statistical disclosure control, §5"
    random: ClassVar[bool] = False
    needs_levels: ClassVar[bool] = True

    top: Mapping[str, float] | None = Field(
        default=None,
        description="by column, the largest value that is released: larger ones become this one (top coding)",
        json_schema_extra={"allowed": "a number for each of some columns"},
    )
    bottom: Mapping[str, float] | None = Field(
        default=None,
        description="by column, the smallest value that is released (bottom coding)",
        json_schema_extra={"allowed": "a number for each of some columns"},
    )
    bands: Mapping[str, float | list[float]] | None = Field(
        default=None,
        description="by column, the width of bands of numbers, or the values at which bands begin",
        json_schema_extra={"allowed": 'such as {"age": 10} or {"age": [18, 30, 65]}'},
    )
    groups: Mapping[str, Mapping[str, str | float]] | None = Field(
        default=None,
        description="by column, what its labels become, or the path of a table that says it",
        json_schema_extra={"allowed": 'such as {"region": {"tyrol": "west", "*": "east"}} or {"region": "map.csv"}'},
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        top, bottom, bands = self.top or {}, self.bottom or {}, self.bands or {}
        named = Counter([*{**top, **bottom}, *bands, *(self.groups or {})])
        if not named:
            raise ValueError("nothing to do: name columns in top, bottom, bands or groups")
        twice = [name for name, times in named.items() if times > 1]
        if twice:
            raise ValueError(f"column '{twice[0]}' is recoded in two ways")
        borders = [b for given in bands.values() for b in (given if isinstance(given, list) else [given])]
        if not np.isfinite([*top.values(), *bottom.values(), *borders]).all():
            raise ValueError("limits and bands are finite numbers")
        for name, given in bands.items():
            steps = given if isinstance(given, list) else [0.0, given]
            if not steps or any(high <= low for low, high in pairwise(steps)):
                raise ValueError(f"bands of '{name}' need a width above 0, or values in ascending order")
        for name in top.keys() & bottom.keys():
            if top[name] <= bottom[name]:
                raise ValueError(f"top of '{name}' is not above its bottom")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are named."""
        given = (self.top, self.bottom, self.bands, self.groups)
        return tuple(dict.fromkeys(name for part in given for name in part or ()))

    def mask_labels(self, labels: Labels) -> Codes:
        """Codes of the new levels, which come after the old ones; what is not changed keeps its code."""
        new = labels.codes.copy()
        for j, (name, levels) in enumerate(zip(labels.names, labels.levels, strict=True)):
            recoded = self._recoded(name, levels)
            fresh = list(dict.fromkeys(value for old, value in zip(levels, recoded, strict=True) if value != old))
            place = {value: len(levels) + at for at, value in enumerate(fresh)}
            codes = [at if value == levels[at] else place[value] for at, value in enumerate(recoded)]
            new[:, j] = np.array([*codes, -1], dtype=np.int64)[labels.codes[:, j]]
            labels.new_levels[name] = [*recoded, *fresh]
            count = len({value for value in recoded if value is not None})
            labels.notes.append(f"column '{name}' has {count} different value{'' if count == 1 else 's'} now")
        return new

    def _recoded(self, name: str, levels: Sequence[Any]) -> list[Any]:
        """What each level becomes."""
        if name in (self.groups or {}):
            return _grouped(name, (self.groups or {})[name], levels)
        present = [level for level in levels if level is not None]
        if any(isinstance(level, bool) or not isinstance(level, int | float) for level in present):
            raise DataError(f"column '{name}' has no numbers to cap or to put into bands", "use groups for labels")
        if name in (self.bands or {}):
            whole = all(float(level).is_integer() for level in present)
            borders = (self.bands or {})[name]
            return [None if level is None else _band(level, borders, whole) for level in levels]
        low, high = (self.bottom or {}).get(name, -np.inf), (self.top or {}).get(name, np.inf)
        integers = all(isinstance(level, int) for level in present)
        return [None if v is None else v if low <= v <= high else _plain(low if v < low else high, integers)
                for v in levels]  # fmt: skip


def _plain(limit: float, integers: bool) -> float | int:
    return int(limit) if integers and float(limit).is_integer() else float(limit)


def _band(value: float, borders: float | list[float], whole: bool) -> str:
    """The band of a number: 20-29 of whole numbers, `20 to <30` of others, `<18` below and `65+` above all borders."""
    if isinstance(borders, list):
        at = int(np.searchsorted(borders, value, side="right"))
        if at == 0:
            return f"<{borders[0]:g}"
        if at == len(borders):
            return f"{borders[-1]:g}+"
        low, high = borders[at - 1], borders[at]
    else:
        low = float(np.floor(value / borders) * borders)
        high = low + borders
    if whole and float(low).is_integer() and float(high).is_integer():
        return f"{low:g}" if high - low == 1 else f"{low:.15g}-{high - 1:.15g}"
    return f"{low:.15g} to <{high:.15g}"


def _grouped(name: str, groups: Mapping[str, str | float], levels: Sequence[Any]) -> list[Any]:
    text = ["" if level is None else label_text(level) for level in levels]
    open_ones = sum(level is not None and of not in groups for level, of in zip(levels, text, strict=True))
    if open_ones and OTHERS not in groups:
        raise ParameterError(
            f"groups: {open_ones} labels of column '{name}' have no group", "name them, or use '*' for all others"
        )
    return [
        None if level is None else groups.get(of, groups.get(OTHERS)) for level, of in zip(levels, text, strict=True)
    ]
