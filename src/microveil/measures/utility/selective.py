"""Selectivity: were the sensitive columns changed, and the others left alone?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from microveil.core.table import Matrix
from microveil.measures.base import Estimate, check_sensitive, gauge, scales
from microveil.measures.utility.distances import cell_correlation


@gauge(
    "how far sensitive columns still go with their originals, and others do not any more, mean over the columns",
    paired=True,
    on_disk="passes",
)
def selectivity(original: Matrix, released: Matrix, *, sensitive: Sequence[int] | None = None) -> Estimate:
    """Selectivity (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 3 and §IV), twice a part of their score `overall`.

    For a sensitive column |cor(x, x')|, which protection should bring to 0; for any other 1 - |cor(x, x')|, as it was
    to be left alone; the mean over the columns. By default all columns are sensitive: then it is the mean of |cor|, and
    1 if nothing was done. Parts have the mean of |cor| of either kind. With two columns that correlate it is near one
    half for every method that exchanges components, so it cannot tell them apart there. No sampling is involved.
    """
    width = original.shape[1]
    check_sensitive(sensitive, width)
    chosen = set(range(width)) if sensitive is None else set(sensitive)
    kept = {j: abs(cell_correlation(original.columns[j], released.columns[j])) for j in scales(original, needed=True)}
    groups = {
        "sensitive": [value for j, value in kept.items() if j in chosen],
        "others": [value for j, value in kept.items() if j not in chosen],
    }
    indices = [*groups["sensitive"], *(1 - value for value in groups["others"])]
    parts = {name: float(np.mean(values)) for name, values in groups.items() if values}
    return Estimate(float(np.mean(indices)), parts=parts)
