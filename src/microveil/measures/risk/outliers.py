"""Outliers: the few whom everybody looks for first.

The intruder does not care for the average. The largest bank, the hospital with three times as many beds as the next:
they are known by name, their figures are in the newspaper, and there is nobody near them to be mistaken for. A release
in which one record in a thousand can be found is no comfort to them if they are the ones.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import standing
from microveil.measures.nearest.standardisation import VIEWS, plain_view
from microveil.measures.risk.interval import share_inside
from microveil.measures.risk.linkage import links_of
from microveil.measures.risk.proportions import attack, share_of

SHARE = 0.01
FEWEST = 5


@attack("share of the most extreme 1 % of records (at least five) that some linkage finds in the release", paired=True)
def outlier_risk(original: Matrix, released: Matrix) -> Estimate:
    """Linkage and interval disclosure of the most extreme records.

    Extreme are the records farthest from the centre, all columns in standard deviations. Each counts with the best of
    three linkages (`dbrl`, `mahalanobis_linkage`, `rank_linkage`), as if the intruder knew which one works; chance is
    that of three guesses. The parts have each linkage by itself; `interval_disclosure`, the share of their values in
    narrow rank intervals around the nearest released record's; and "most exposed", the largest risk of a single one of
    them: 1 over the number of released records at least as near as its own.
    """
    count = original.shape[0]
    size = min(max(FEWEST, int(np.ceil(SHARE * count))), count)
    rows = np.sort(np.argsort(-_remoteness(original), kind="stable")[:size])
    linked, risk = risk_of_rows(original, released, rows)
    best = np.max(list(linked.values()), axis=0)
    view = plain_view(original, released)
    nearest = links_of(view.before, view.after, rows, view.known).nearest
    return share_of(
        float(best.sum()),
        rows.size,
        chance=1 - (1 - 1 / count) ** len(VIEWS),
        note=f"{rows.size} records",
        parts={
            **{name: float(credit.mean()) for name, credit in linked.items()},
            "interval_disclosure": share_inside(original, released, rows, nearest),
            "most exposed": float(risk.max()),
        },
    )


def risk_of_rows(original: Matrix, released: Matrix, rows: Index) -> tuple[dict[str, Array], Array]:
    """For some rows: by each linkage the chance that it finds their own release, 1/k if k are equally near; and the
    risk, which is 1 over the number of released records at least as near as their own, by the linkage that tells most.

    A record without a cell that is there in both files is found by none.
    """
    linked, risk = {}, np.zeros(rows.size)
    for name, view_of in VIEWS.items():
        view = view_of(original, released)
        ahead, equal = standing(view.before[rows], view.after, rows)
        linked[name] = np.where(view.known[rows] & (ahead == 0), 1 / equal, 0.0)
        risk = np.maximum(risk, np.where(view.known[rows], 1 / (ahead + equal), 0.0))
    return linked, risk


def _remoteness(original: Matrix) -> Array:
    """Root mean square of a record's values in standard deviations from the means; 0 for one without values."""
    values, _ = standardised(original, original)
    there = np.maximum((~np.isnan(values)).sum(axis=1), 1)
    remoteness: Array = np.sqrt(np.square(np.nan_to_num(values)).sum(axis=1) / there)
    return remoteness
