"""Scores of the residuals: what the public columns leave of the confidential ones (Langsrud 2019, eq. 2)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from microveil.core.factor import Factorisation, generalised_svd
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.base import Axes, Decomposition, Sample
from microveil.decompose.cholesky import residual_axes


class Residuals(Decomposition):
    """Orthogonal scores of the residuals, one column after the other (QR) or by principal components (SVD)."""

    reference: ClassVar[str] = "Langsrud (2019), eq. 2 and Appendices 1 and 2"
    ordered: ClassVar[bool] = True

    decomposition: Factorisation = Field(
        default="qr",
        description="scores of the residuals: qr adds one column after the other, in their order; svd takes the "
        "principal components of the columns in their own units",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """The axes; principal ones are found from the triangular ones, which do not square the spread of scales."""
        axes = residual_axes(centred)
        if self.decomposition == "qr":
            return axes
        turned = generalised_svd(axes.loadings)
        return Axes(
            projection=axes.projection @ turned.scores,
            loadings=turned.loadings,
            variance=axes.variance,
            weights=turned.loadings.T / centred.sd[:, None],
        )
