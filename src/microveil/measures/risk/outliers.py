"""Outliers: the few whom everybody looks for first.

The intruder does not care for the average. The largest bank, the hospital with three times as many beds as the next:
they are known by name, their figures are in the newspaper, and there is nobody near them to be mistaken for. A release
in which one record in a thousand can be found is no comfort to them if they are the ones.
"""

from __future__ import annotations

import numpy as np

from microveil.core.table import Matrix
from microveil.measures.base import Estimate
from microveil.measures.nearest.standardisation import VIEWS, plain_view
from microveil.measures.risk.interval import told
from microveil.measures.risk.linkage import links_of
from microveil.measures.risk.proportions import attack, share_of
from microveil.measures.risk.records import record_risk, remoteness_of

SHARE = 0.01
FEWEST = 5


@attack("share of the most extreme 1 % of records (at least five) that some linkage finds in the release", paired=True)
def outlier_risk(original: Matrix, released: Matrix) -> Estimate:
    """Linkage and interval disclosure of the most extreme records.

    Extreme are the records farthest from the centre, all columns in standard deviations. Each counts with the best of
    three linkages (`dbrl`, `mahalanobis_linkage`, `rank_linkage`), as if the intruder knew which one works; chance is
    that of three guesses. The parts have each linkage by itself; `interval_disclosure`, the share of their values in
    narrow rank intervals around the nearest released record's; and "most exposed", the largest risk of a single one of
    them, as in `record_risk`: 1 over the number of released records at least as near as its own.
    """
    count = original.shape[0]
    size = min(max(FEWEST, int(np.ceil(SHARE * count))), count)
    rows = np.sort(np.argsort(-remoteness_of(original), kind="stable")[:size])
    found = record_risk(original, released, rows)
    best = np.max(list(found.linked.values()), axis=0)
    view = plain_view(original, released)
    nearest = links_of(view.before, view.after, rows, view.known).nearest
    return share_of(
        float(best.sum()),
        rows.size,
        chance=1 - (1 - 1 / count) ** len(VIEWS),
        note=f"{rows.size} records",
        parts={
            **{name: float(credit.mean()) for name, credit in found.linked.items()},
            "interval_disclosure": told(original, released, rows, nearest),
            "most exposed": float(found.risk.max()),
        },
    )
