"""How the codes of a dimension add up: the total over all, sums over some, and the codes that nothing lies below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from microveil.core.errors import DataError

Numbers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Hierarchy:
    """The codes of a dimension, each before those below it, and the number of the one above each (of the total: -1)."""

    name: str
    codes: tuple[str, ...]
    above: Numbers

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each code."""
        return {code: place for place, code in enumerate(self.codes)}

    @cached_property
    def leaves(self) -> Numbers:
        """Numbers of the codes that nothing lies below: those of inner cells."""
        inner = np.ones(len(self.codes), dtype=bool)
        inner[self.above[self.above >= 0]] = False
        return np.flatnonzero(inner)

    @cached_property
    def leaf_of(self) -> Numbers:
        """For each code its place among the leaves, -1 for sums."""
        places = np.full(len(self.codes), -1, dtype=np.int64)
        places[self.leaves] = np.arange(self.leaves.size)
        return places

    @cached_property
    def lines(self) -> Numbers:
        """For each leaf the codes it is part of, from itself up to the total; -1 where the line is at its end."""
        levels = [self.leaves]
        while (levels[-1] >= 0).any():
            levels.append(np.where(levels[-1] >= 0, self.above[levels[-1]], -1))
        return np.stack(levels[:-1], axis=1)


def from_parents(name: str, above: Mapping[str, str], total: str) -> Hierarchy:
    """The hierarchy in which each code lies below another; those that nothing lies above are put below the total."""
    if not above:
        raise DataError(f"dimension '{name}' has no codes", "give a table with at least one row")
    parents = dict(above)
    tops = [code for code in dict.fromkeys(parents.values()) if code not in parents]
    root = tops[0] if len(tops) == 1 else total
    if root in parents:
        raise DataError(
            f"dimension '{name}': '{root}' is the name of its total and of a code below another",
            "rename one of them, or choose another name for totals (total=...)",
        )
    parents |= {code: root for code in tops if code != root}
    below: dict[str, list[str]] = {}
    for code, parent in parents.items():
        below.setdefault(parent, []).append(code)
    codes, stack = [], [root]
    while stack:  # each code before those below it, in the order in which they were given
        codes.append(stack.pop())
        stack.extend(reversed(below.get(codes[-1], [])))
    if len(codes) <= len(parents):
        lost = len(parents) + 1 - len(codes)
        raise DataError(f"dimension '{name}': {lost} codes lie below themselves", "a hierarchy must not go in circles")
    numbers = {code: place for place, code in enumerate(codes)}
    return Hierarchy(name, tuple(codes), np.array([-1, *(numbers[parents[code]] for code in codes[1:])], np.int64))
