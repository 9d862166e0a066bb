"""Decompositions: data = centre + scores @ loadings + rest."""

from microveil.decompose.base import Axes, Decomposition
from microveil.decompose.centre import Centre, fit_centre
from microveil.decompose.cholesky import Cholesky
from microveil.decompose.factor import FactorAnalysis
from microveil.decompose.ica import IndependentComponents
from microveil.decompose.ics import InvariantCoordinates
from microveil.decompose.identity import Identity
from microveil.decompose.pca import PrincipalComponents, standard_axes
from microveil.decompose.rank_target import RankTarget
from microveil.decompose.select import Components, Offer, Selection
from microveil.decompose.select_factors import Factors

__all__ = [
    "Axes",
    "Centre",
    "Cholesky",
    "Components",
    "Decomposition",
    "FactorAnalysis",
    "Factors",
    "Identity",
    "IndependentComponents",
    "InvariantCoordinates",
    "Offer",
    "PrincipalComponents",
    "RankTarget",
    "Selection",
    "fit_centre",
    "standard_axes",
]
