"""Refuse to protect a column that follows from columns in clear: nothing that is done to it would hide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.table import Matrix
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.sources import Cells, IntakeSource
from microveil.io.dictionary import codes_of
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import LARGEST
from microveil.rules.derivable import DerivableColumn, derivable_columns, spread_rows
from microveil.rules.label_rules import BY_CHANCE, follows
from microveil.rules.near_rules import HOLDS

Codes = Mapping[str, tuple[float, ...]]

HINT = "make them confidential too, or drop them"


def check_not_derivable(
    source: IntakeSource, confidential: Sequence[str], rules: Rules, apart: Sequence[str] = ()
) -> list[str]:
    """Refuse confidential columns that follow from columns in clear in every row; warnings of those that mostly do.

    Rules are searched for in some rows from all over the table, and confirmed on all.

    Args:
        source: the columns.
        confidential: those that are protected.
        rules: the rules of the columns, as the caller gave them.
        apart: those that are neither protected nor in clear: numbered anew, or the place of a row in its unit.
    """
    hidden = frozenset([*confidential, *apart])
    clear = [name for name in source.names if name not in hidden and source.is_numeric(name)]
    if not clear or (rows_in_all := source.count) == 0:
        return []
    names = [*clear, *confidential]
    sample = source.sample(names, spread_rows(rows_in_all, len(clear)))
    codes = _codes_in(sample, rules, source.names)
    always, mostly = [], []
    for found in derivable_columns(Matrix([_values(sample[name], codes[name]) for name in names]), len(clear)):
        own = [names[j] for j in (found.column, *found.by)]
        counts = list(source.counted(partial(_missed, found, own, codes), own))
        broken, rows = (sum(part[place] for part in counts) for place in (0, 1))
        others = ", ".join(f"'{name}'" for name in own[1:])
        if broken == 0 < rows and not found.closely:
            always.append(f"'{own[0]}' follows from {others}")
        elif rows and broken <= (1 - HOLDS) * rows:
            how = "closely" if found.closely else f"in {1 - broken / rows:.1%} of the rows"
            mostly.append(f"column '{own[0]}' follows {how} from {others}, which are released as they are: {HINT}")
    _refuse(always, "released as they are: whoever has them has it")
    return mostly


def _refuse(always: Sequence[str], why: str) -> None:
    """Refuse columns that follow in every row: the first is named, and `why` it cannot be protected."""
    if always:
        more = f" (and {len(always) - 1} more such columns)" if len(always) > 1 else ""
        raise DataError(f"confidential: {always[0]}, {why}{more}", HINT)


def check_labels_not_derivable(frame: Frame, labels: Sequence[str], clear: Sequence[str]) -> list[str]:
    """Refuse protected labels that follow from labels in clear (`clear`); warnings of those that mostly do.

    Labels of few rows each are no source: who knows what follows from an identifier knows the records.
    """
    always, mostly = [], []
    sources = {name: frame.labels(name) for name in clear} if labels else {}
    sources = {name: codes for name, codes in sources.items() if (codes.max() + 1) * FEWEST_RECORDS <= codes.size}
    for name in labels:
        for other, codes in sources.items():
            rule = follows(codes, frame.labels(name), BY_CHANCE / max(len(labels) * len(sources), 1))
            if rule is not None and not rule.exceptions:
                always.append(f"'{name}' follows from '{other}'")
            elif rule is not None:
                share = 1 - rule.exceptions / frame.count
                mostly.append(
                    f"column '{name}' follows in {share:.1%} of the rows from '{other}', which is released as it is: "
                    f"{HINT}"
                )
    _refuse(always, "released as it is: whoever has it has both")
    return mostly


def _missed(found: DerivableColumn, own: Sequence[str], codes: Codes, cells: Cells) -> tuple[int, int]:
    """In how many of some rows a column does not follow, and how many have all the cells; codes are no values.

    `own` has the names of the column and of those that it follows from.
    """
    numbers = (found.column, *found.by)
    return found.missed({j: _values(cells[name], codes[name]) for j, name in zip(numbers, own, strict=True)})


def _codes_in(sample: Cells, rules: Rules, names: Sequence[str]) -> Codes:
    """The special codes of columns of a table that has these names."""
    dictionary, inferred = dictionary_for(rules, names)
    return {name: codes_of(cells) if inferred else dictionary.codes(name) for name, cells in sample.items()}


def _values(cells: Array, codes: tuple[float, ...]) -> Array:
    """The cells that are values; others are missing."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isin(cells, codes) | ~(np.abs(cells) <= LARGEST), np.nan, cells)
