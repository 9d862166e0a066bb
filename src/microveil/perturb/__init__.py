"""Perturbations by the name a user types. A new one is a file here and a line below."""

from microveil.perturb.base import Column, ColumnPerturbation, Columns, JointPerturbation, Perturbation
from microveil.perturb.microaggregate import Microaggregate
from microveil.perturb.noise import Noise
from microveil.perturb.parametric import Parametric
from microveil.perturb.rank_swap import RankSwap
from microveil.perturb.redraw import Bootstrap, Normal, Redraw, Uniform, VanDerWaerden
from microveil.perturb.remove import Remove
from microveil.perturb.rotate import Rotate
from microveil.perturb.swap import Swap

PERTURBATIONS: dict[str, type[Perturbation]] = {
    "swap": Swap,
    "redraw": Redraw,
    "normal": Normal,
    "parametric": Parametric,
    "noise": Noise,
    "rank_swap": RankSwap,
    "microaggregate": Microaggregate,
    "rotate": Rotate,
    "bootstrap": Bootstrap,
    "uniform": Uniform,
    "van_der_waerden": VanDerWaerden,
}

# What only the methods made of it use: with another method it would do harm.
RESERVED: dict[str, type[Perturbation]] = {"remove": Remove}

__all__ = [
    "PERTURBATIONS",
    "RESERVED",
    "Column",
    "ColumnPerturbation",
    "Columns",
    "JointPerturbation",
    "Perturbation",
]
