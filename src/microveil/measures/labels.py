"""The label columns of two files side by side, as numbers of levels on a list that both files share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from microveil.core.arrays import Array, Index
from microveil.core.keys import Codes
from microveil.core.table import Matrix

LABEL_KINDS: Final = ("category", "ordered")


@dataclass(frozen=True, repr=False)
class LabelPair:
    """Columns of labels that both files have, and columns of any kind that are released as they are.

    Cells are numbers of levels from 0, -1 where they are missing; the levels of an `ordered` column, and of numbers and
    dates, are in their order. What the levels are called is for the eyes of the owner.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    """category or ordered; or amount, count, date, ... of columns in clear that are no labels."""

    sizes: tuple[int, ...]
    """The number of levels of each column, in both files (and the holdout) together."""

    original: Codes
    """Rows x columns."""

    released: Codes
    in_clear: tuple[bool, ...]
    """Is the column released as it is?"""

    keys: tuple[int, ...]
    """Columns that an intruder may know: by default all."""

    sensitive: tuple[int, ...] | None = None
    """Columns that are to be hidden, if not all; none where only numbers are."""

    weights: Array | None = None
    """Survey weights of the records of the original."""

    released_weights: Array | None = None
    """The same of the release, if it has them or the same rows."""

    holdout: Codes | None = None
    """Records that did not enter the release; only of columns of labels, -1 elsewhere."""

    level_names: tuple[tuple[str, ...], ...] = ()

    def select(self, columns: Sequence[int]) -> LabelPair:
        """Some of the columns, numbered anew."""
        chosen, places = list(columns), {column: place for place, column in enumerate(columns)}
        changed: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name in ("keys", "sensitive"):
                changed[name] = None if value is None else tuple(places[j] for j in value if j in places)
            elif name in ("original", "released", "holdout"):
                changed[name] = None if value is None else value[:, chosen]
            elif isinstance(value, tuple):
                changed[name] = tuple(value[j] for j in chosen) if value else ()
        return replace(self, **changed)

    @property
    def of_labels(self) -> LabelPair:
        """The columns of labels alone, without numbers and dates that are in clear."""
        return self.select([j for j, kind in enumerate(self.kinds) if kind in LABEL_KINDS])

    @property
    def of_clear(self) -> LabelPair:
        """The columns that are released as they are."""
        return self.select([j for j, clear in enumerate(self.in_clear) if clear])

    @property
    def hidden(self) -> LabelPair:
        """The columns that are to be hidden: all, where none are named."""
        return self if self.sensitive is None else self.select(self.sensitive)

    def of_records(self, original: Codes, released: Codes) -> LabelPair:
        """The same columns of other records."""
        return replace(self, original=original, released=released, weights=None, released_weights=None)

    def of_rows(self, rows: Index, released: Index, held: Index | None) -> LabelPair:
        """Some rows of both files, and of those that were held out; in memory, wherever they are."""
        pick = {"original": rows, "released": released, "weights": rows, "released_weights": released, "holdout": held}
        there = {name: own for name, own in vars(self).items() if name in pick and own is not None}
        return replace(self, **{name: own if pick[name] is None else own[pick[name]] for name, own in there.items()})


@dataclass(frozen=True, repr=False)
class DistantCodes:
    """Codes of a `LabelPair` whose rows are far away: some columns are such codes, too, and some rows an array."""

    table: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.table.shape

    def __len__(self) -> int:
        return self.table.shape[0]

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, tuple):
            return DistantCodes(self.table.select(where[1]))
        return np.column_stack(self.table.take(where).columns).astype(np.int64)


def indicator_columns(labels: LabelPair, most: int, *, fewest: int = 1) -> list[Array]:
    """For each file (the holdout last, if there is one) a column of 0 and 1 for each label, the most frequent first.

    Labels of fewer than `fewest` original records have none, nor has the most frequent one of each column.
    """
    counted = []
    for j, size in enumerate(labels.sizes):
        counts = np.bincount(labels.original[:, j] + 1, minlength=size + 1)
        levels = np.argsort(-counts, kind="stable")[1:]
        counted += [(int(counts[level]), j, int(level) - 1) for level in levels if counts[level] >= fewest]
    chosen = sorted(counted, key=lambda term: -term[0])[:most]
    files = [labels.original, labels.released, *([] if labels.holdout is None else [labels.holdout])]
    return [
        np.column_stack([np.zeros((len(side), 0)), *((side[:, j] == level).astype(float) for _, j, level in chosen)])
        for side in files
    ]
