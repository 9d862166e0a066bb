"""Decompositions: data = centre + scores @ loadings + rest."""

from microveil.decompose.base import Axes, Decomposition
from microveil.decompose.centre import Centre, fit_centre
from microveil.decompose.ica import IndependentComponents
from microveil.decompose.pca import PrincipalComponents
from microveil.decompose.select import Components

__all__ = [
    "Axes",
    "Centre",
    "Components",
    "Decomposition",
    "IndependentComponents",
    "PrincipalComponents",
    "fit_centre",
]
