"""Labels that never meet are kept apart where some are not arranged with the others: those of units, bands of ages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from microveil.core.rng import Streams
from microveil.intake.declared import rules_of_labels
from microveil.intake.intake import Rules, dictionary_for, rules_among
from microveil.io.frames.base import Frame
from microveil.io.frames.dataframes import open_frame


def with_pairs_parted(
    table: Any, before: Frame, columns: tuple[Sequence[str], Sequence[str]], rules: Rules, streams: Streams
) -> Any:
    """A released table without pairs of labels that cannot be.

    Args:
        table: what was released.
        before: the original, in which it is seen which labels never meet.
        columns: those that stay, and those that records exchange; what follows from these follows again.
        rules: the rules of the columns, as the caller gave them.
        streams: the randomness of the release.
    """
    stay, moving = columns
    if not moving:
        return table
    names, after = [*stay, *moving], open_frame(table)
    new = [after.labels(name) for name in names]
    if not all(_has_the_levels(before, after, name) for name in names):
        return table
    dictionary, inferred = dictionary_for(rules_among(rules, before.names), before.names)
    found = rules_of_labels(before, names, dictionary, inferred=inferred, stay=range(len(stay)))
    if not found.pairs:
        return table
    fixed = found.restored([new[j] for j in found.independent], streams.stream("pairs of labels").generator())
    return after.rebuilt({}, {}, dict(zip(moving, fixed[len(stay) :], strict=True)))


def _has_the_levels(before: Frame, after: Frame, name: str) -> bool:
    """Are the levels of a column numbered alike in both tables? The last places in a unit may be gone."""
    last = [int(frame.labels(name).max(initial=0)) for frame in (before, after)]
    if last[0] == last[1]:
        return True
    if not before.is_numeric(name) or last[1] > last[0]:
        return False
    some = np.unique(before.numbers(name))[: last[1] + 1]
    return bool(np.array_equal(some, np.unique(after.numbers(name))))
