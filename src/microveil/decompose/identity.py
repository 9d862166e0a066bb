"""No decomposition: the columns themselves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.base import SQUARED, Axes, Decomposition, Sample


class Identity(Decomposition):
    """Each column is its own component.

    The unit of a component is the power of two nearest to the column's standard deviation: multiplying by it loses no
    digit, so that values which only change places come back as they were.
    """

    centres: ClassVar[bool] = False
    most_columns: ClassVar[int | None] = SQUARED

    @property
    def uncorrelated(self) -> bool:
        """Columns are as correlated as they are."""
        return False

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """A component for each column."""
        unit = np.ldexp(1.0, np.round(np.log2(centred.sd)).astype(int))
        return Axes(
            projection=np.diag(1 / unit),
            loadings=np.diag(unit),
            variance=centred.variance / np.square(unit),
            weights=np.eye(unit.size),
        )
