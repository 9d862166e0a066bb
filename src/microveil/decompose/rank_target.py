"""Axes that give scores a wanted correlation, whatever they had: the target of Iman and Conover (1982)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.linalg import nearest_correlation
from microveil.core.moments import Moments
from microveil.core.ranks import mid_ranks
from microveil.core.rng import Stream
from microveil.decompose.base import SQUARED, Axes, Decomposition, Sample
from microveil.decompose.cholesky import triangular_axes

SAMPLE_ROWS = 100_000
"""Rows the rank correlations are taken from: their error is then 0.003."""


class RankTarget(Decomposition):
    """Uncorrelated scores, and loadings that give them the correlation that normal scores must have.

    Values that are assigned by the ranks of normal scores with correlation r have a rank correlation of
    6/π arcsin(r/2); so r = 2 sin(π r_s / 6) gives back Spearman's r_s. Iman and Conover take r_s itself, which comes
    out a little smaller. Hsu and Chen (2008) seem to have taken Pearson's, by the figures they print.
    """

    reference: ClassVar[str] = "Iman and Conover (1982); Hsu and Chen (2008), §5"
    most_columns: ClassVar[int | None] = SQUARED

    target: Literal["adjusted", "spearman", "pearson"] = Field(
        default="adjusted",
        description="correlation of the normal scores: 2 sin(pi r / 6) of Spearman's r, r itself, or Pearson's",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - nothing random
        """The Cholesky factor of the target."""
        target = nearest_correlation(self._target(centred, sample))
        return replace(triangular_axes(target, centred.sd), sets_moments=True)

    def _target(self, centred: Moments, sample: Sample) -> Array:
        if self.target == "pearson":
            return centred.covariance / np.outer(centred.sd, centred.sd)
        ranks = np.array([mid_ranks(column) for column in sample(SAMPLE_ROWS).T])
        spearman = np.atleast_2d(np.corrcoef(ranks))
        return spearman if self.target == "spearman" else 2 * np.sin(np.pi * spearman / 6)
