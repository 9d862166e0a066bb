"""The risk of each single record, for the owner's eyes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.measure import check_comparable, standardised
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.risk.neighbours import Index, standing
from microveil.risk.views import VIEWS


@dataclass(frozen=True, repr=False)
class RecordRisk:
    """What each of some originals has to fear. Every array has one entry per record, in the order of `row`.

    It says which records are at risk, and so never belongs into a public report.

    Attributes:
        row: numbers of the records, from 0.
        linked: by each linkage, the chance that it finds the record's own release (1/k if k are equally near).
        nearer: by each linkage, how many released records are nearer to the original than its own.
        risk: the largest over the linkages of one over the number of released records at least as near as its own, the
            chance of one who picks among those. 1 if some linkage finds the record.
        remoteness: distance of the original from the centre, in standard deviations per column.
    """

    row: Index
    linked: Mapping[str, Array]
    nearer: Mapping[str, Index]
    risk: Array
    remoteness: Array

    def __len__(self) -> int:
        """The number of records."""
        return self.row.size

    def to_dict(self) -> dict[str, list[float]]:
        """Columns by name, as a frame of any kind takes them."""
        columns: dict[str, Array | Index] = {"row": self.row, "risk": self.risk, "remoteness": self.remoteness}
        columns |= self.linked
        columns |= {f"nearer by {name}": counts for name, counts in self.nearer.items()}
        return {name: values.tolist() for name, values in columns.items()}


def record_risk(original: Matrix, released: Matrix, rows: Index | None = None) -> RecordRisk:
    """How easily each record (or each of `rows`) is found among all released ones, by three kinds of distance.

    The linkages are `dbrl`, `mahalanobis_linkage` and `rank_linkage`. A record without a cell that is there in both
    files is found by none, and all released records count as nearer. The work grows with the number of records asked
    for times that of released ones, in bounded memory.
    """
    check_comparable(original, released, paired=True)
    count = original.shape[0]
    asked = np.arange(count) if rows is None else np.asarray(rows, dtype=np.intp)
    if asked.size and (asked.min() < 0 or asked.max() >= count):
        raise ParameterError(f"rows: numbers of records from 0 to {count - 1}", "leave them out to ask for all")
    linked, nearer, risks = {}, {}, np.zeros(asked.size)
    with single_threaded_blas():
        for name, look in VIEWS.items():
            view = look(original, released)
            ahead, equal = standing(view.before[asked], view.after, asked)
            known = view.known[asked]
            linked[name] = np.where(known & (ahead == 0), 1 / equal, 0.0)
            nearer[name] = np.where(known, ahead, count)
            risks = np.maximum(risks, np.where(known, 1 / (ahead + equal), 0.0))
        remoteness = remoteness_of(original)[asked]
    return RecordRisk(asked, linked, nearer, risks, remoteness)


def remoteness_of(original: Matrix) -> Array:
    """Root mean square of a record's values in standard deviations from the means; 0 for one without values."""
    values, _ = standardised(original, original)
    there = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    remoteness: Array = np.sqrt(np.square(np.nan_to_num(values)).sum(axis=1) / there)
    return remoteness
