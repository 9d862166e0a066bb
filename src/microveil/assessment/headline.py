"""The first risk figure of every face: that of the whole file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from microveil.assessment.assessment import gain_of
from microveil.assessment.figures import GAUGES
from microveil.assessment.measuring import CLEAR, MIXED, NUMBERS, available
from microveil.assessment.pairing import Pair
from microveil.measures.base import Measure
from microveil.measures.risk.proportions import PAIRS


def headline(both: Pair, seed: int | None, known: Mapping[str, Measure]) -> tuple[Measure, Measure]:
    """The first figure anyone asks for, of the originals themselves and of the release: the worst for the whole file.

    It is the share of records that are linked by all columns, or of those that are alone with what is in clear,
    whichever is more. Of many records a sample is tried; figures that are `known` are not measured again.
    """
    there, columns = available(both), (both.original, both.released)
    found = []
    if CLEAR in known and "clear" not in there:  # counted among all rows, of which these are a sample
        found.append((known[CLEAR], known[CLEAR]))
    for name in [MIXED if "others" in there else NUMBERS, *([CLEAR] if "clear" in there else [])]:
        options: dict[str, Any] = {} if name == CLEAR else {"seed": seed, "pairs": PAIRS}
        before, after = dict(options), dict(options)
        if both.labels is not None and name != NUMBERS:
            labels = both.labels
            before["labels"], after["labels"] = labels.beside(labels.original, labels.original), labels
        released = known.get(name) or GAUGES[name](*columns, **after)
        found.append((GAUGES[name](columns[0], columns[0], **before), released))
    return max(found, key=lambda pair: gain_of(pair[1]))
