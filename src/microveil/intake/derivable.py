"""Refuse to protect a column that the columns in clear tell: nothing that is done to it would hide it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.table import Matrix
from microveil.intake.intake import Rules, dictionary_for
from microveil.io.blocks import BlockSource
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import LARGEST
from microveil.rules.derivable import DerivableColumn, columns_told, spread_rows
from microveil.rules.near_rules import HOLDS

Cells = Mapping[str, Array]
Codes = Mapping[str, tuple[float, ...]]
Counts = Callable[[Cells], tuple[int, int]]
Counted = Callable[[Counts, Sequence[str]], Iterable[tuple[int, int]]]
"""What counts give of some columns of all rows, piece by piece."""

HINT = "make them confidential too, or drop them"


def told_in_clear(frame: Frame, confidential: Sequence[str], rules: Rules) -> list[str]:
    """Refuse confidential columns that follow from columns in clear in every row; warnings of those that mostly do."""
    clear = [name for name in frame.names if name not in set(confidential) and frame.is_numeric(name)]
    if not clear or frame.count == 0:
        return []
    rows = spread_rows(frame.count, len(clear))
    sample = {name: frame.numbers(name)[rows] for name in (*clear, *confidential)}

    def counted(of: Counts, names: Sequence[str]) -> Iterable[tuple[int, int]]:
        return [of({name: frame.numbers(name) for name in names})]

    return judged(sample, len(clear), codes_in(sample, rules, frame.names), counted)


def told_in_blocks(source: BlockSource, confidential: Sequence[str], rules: Rules, rows: int) -> list[str]:
    """The same for a file that is read so many rows at a time."""
    clear = [name for name in source.names if name not in set(confidential) and source.is_numeric(name)]
    if not clear:
        return []
    names = [*clear, *confidential]

    def read(names: Sequence[str]) -> Iterator[Cells]:
        for batch in source.batches(list(names), rows):
            yield {name: source.numbers(name, batch.column(name))[0] for name in names}

    wanted, first, parts = spread_rows(source.count, len(clear)), 0, []
    for cells in read(names):
        here = wanted[(wanted >= first) & (wanted < first + cells[clear[0]].size)] - first
        parts.append({name: values[here] for name, values in cells.items()})
        first += cells[clear[0]].size
    sample = {name: np.concatenate([part[name] for part in parts]) for name in names}
    codes = codes_in(sample, rules, source.names)
    return judged(sample, len(clear), codes, lambda of, own: map(of, read(own)))


def judged(sample: Cells, clear: int, codes: Codes, counted: Counted) -> list[str]:
    """What the rows of a sample say of all but the first `clear` columns, confirmed on all rows."""
    names = list(sample)
    always, mostly = [], []
    for told in columns_told(Matrix([_values(sample[name], codes[name]) for name in names]), clear):
        own = [names[j] for j in (told.column, *told.by)]
        counts = list(counted(partial(_missed, told, own, codes), own))
        broken, rows = (sum(part[place] for part in counts) for place in (0, 1))
        others = ", ".join(f"'{name}'" for name in own[1:])
        if broken == 0 < rows and not told.closely:
            always.append(f"'{own[0]}' follows from {others}")
        elif rows and broken <= (1 - HOLDS) * rows:
            how = "closely" if told.closely else f"in {1 - broken / rows:.1%} of the rows"
            mostly.append(f"column '{own[0]}' follows {how} from {others}, which are released as they are: {HINT}")
    if always:
        more = f" (and {len(always) - 1} more such columns)" if len(always) > 1 else ""
        raise DataError(f"confidential: {always[0]}, released as they are: whoever has them has it{more}", HINT)
    return mostly


def _missed(told: DerivableColumn, own: Sequence[str], codes: Codes, cells: Cells) -> tuple[int, int]:
    """In how many of some rows a column does not follow, and how many have all the cells; codes are no values."""
    numbers = (told.column, *told.by)
    return told.missed({j: _values(cells[name], codes[name]) for j, name in zip(numbers, own, strict=True)})


def codes_in(sample: Cells, rules: Rules, names: Sequence[str]) -> Codes:
    """The special codes of columns of a table that has these names."""
    dictionary, inferred = dictionary_for(rules, names)
    if not inferred:
        return {name: dictionary.codes(name) for name in sample}
    found = {}
    for name, values in sample.items():
        present = values[np.isfinite(values)]
        found[name] = find_codes(present, float(present.min()), float(present.max())) if present.size else ()
    return found


def _values(cells: Array, codes: tuple[float, ...]) -> Array:
    """The cells that tell something; others are missing."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isin(cells, codes) | ~(np.abs(cells) <= LARGEST), np.nan, cells)
