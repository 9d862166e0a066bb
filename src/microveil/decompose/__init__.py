"""Decompositions: data = centre + scores @ loadings + rest."""

from microveil.decompose.base import Axes, Decomposition
from microveil.decompose.centre import Centre, fit_centre
from microveil.decompose.cholesky import Cholesky
from microveil.decompose.clusters import Aggregates, Clustered, ClusterLayout, Clusters, Microclusters, OutlyingRecords
from microveil.decompose.factor import FactorAnalysis
from microveil.decompose.ica import IndependentComponents
from microveil.decompose.ics import InvariantCoordinates
from microveil.decompose.identity import Identity
from microveil.decompose.levels import Levels, Parts, crossed, fit_levels
from microveil.decompose.outlying import outlying
from microveil.decompose.pca import PrincipalComponents, standard_axes
from microveil.decompose.rank_target import RankTarget
from microveil.decompose.residuals import Residuals
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
