"""Decompositions: data = centre + scores @ loadings + rest."""

from microveil.decompose.axes import Cholesky, Identity, PrincipalComponents, RankTarget, Residuals, standard_axes
from microveil.decompose.base import Axes, Centre, Decomposition, fit_centre
from microveil.decompose.clusters import (
    Aggregates,
    Clustered,
    ClusterLayout,
    Clusters,
    Levels,
    Microclusters,
    OutlyingRecords,
    Parts,
    crossed,
    fit_levels,
    outlying,
)
from microveil.decompose.factor import FactorAnalysis
from microveil.decompose.ica import IndependentComponents, InvariantCoordinates
from microveil.decompose.select import Components, FactorSelection, Offer, Selection
