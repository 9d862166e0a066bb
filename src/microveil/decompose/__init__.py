"""Decompositions: data = centre + scores @ loadings + rest."""

from microveil.decompose.base import Axes, Decomposition
from microveil.decompose.centre import Centre, fit_centre
from microveil.decompose.cholesky import Cholesky, RankTarget, Residuals
from microveil.decompose.clusters import (
    Aggregates,
    Clustered,
    ClusterLayout,
    Clusters,
    Microclusters,
    OutlyingRecords,
    outlying,
)
from microveil.decompose.factor import FactorAnalysis
from microveil.decompose.ica import IndependentComponents, InvariantCoordinates
from microveil.decompose.levels import Levels, Parts, crossed, fit_levels
from microveil.decompose.pca import Identity, PrincipalComponents, standard_axes
from microveil.decompose.select import Components, Offer, Selection
from microveil.decompose.select_factors import FactorSelection

__all__ = [
    "Aggregates",
    "Axes",
    "Centre",
    "Cholesky",
    "ClusterLayout",
    "Clustered",
    "Clusters",
    "Components",
    "Decomposition",
    "FactorAnalysis",
    "FactorSelection",
    "Identity",
    "IndependentComponents",
    "InvariantCoordinates",
    "Levels",
    "Microclusters",
    "Offer",
    "OutlyingRecords",
    "Parts",
    "PrincipalComponents",
    "RankTarget",
    "Residuals",
    "Selection",
    "crossed",
    "fit_centre",
    "fit_levels",
    "outlying",
    "standard_axes",
]
