"""Perturbations of one column, by the name a user types. A new one is a file here and a line below."""

from microveil.perturb.base import Column, Perturbation
from microveil.perturb.noise import Noise
from microveil.perturb.parametric import Parametric
from microveil.perturb.redraw import Normal, Redraw
from microveil.perturb.swap import Swap

PERTURBATIONS: dict[str, type[Perturbation]] = {
    "swap": Swap,
    "redraw": Redraw,
    "normal": Normal,
    "parametric": Parametric,
    "noise": Noise,
}

__all__ = ["PERTURBATIONS", "Column", "Perturbation"]
