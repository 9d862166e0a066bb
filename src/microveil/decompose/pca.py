"""Principal components (Calviño 2017, eq. 5, 6, 8)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.moments import Moments
from microveil.decompose.base import Axes, Decomposition


class PrincipalComponents(Decomposition):
    """Uncorrelated components in the order of their variance.

    X1 = (X - M) S, X2 = X1 A (eq. 5, 6), with A the eigenvectors of the correlation matrix. Standard
    deviations have the divisor n, as the scores printed in the paper's Table 1; the masked data do not depend
    on it.
    """

    reference: ClassVar[str] = "Calviño (2017), eq. 5-8"

    standardise: Annotated[
        bool,
        Field(description="bring the columns to unit variance first; turn it off only if all are in one unit"),
    ] = True

    def fit(self, centred: Moments) -> Axes:
        """Eigenvectors of the correlation (or covariance) matrix, without those that are round-off."""
        # Eigenvalues are found on unit-variance columns or, unstandardised, on columns of one common scale.
        scale = centred.sd if self.standardise else np.full(centred.sd.size, centred.sd.max())
        values, vectors = sorted_eigen(centred.covariance / np.outer(scale, scale))
        rank = rank_of(values)
        values, vectors = values[:rank], vectors[:, :rank]
        unit = scale if self.standardise else np.ones_like(scale)
        return Axes(
            projection=vectors / unit[:, None],
            loadings=vectors.T * unit,
            variance=values if self.standardise else values * scale[0] ** 2,
            weights=vectors,
        )
