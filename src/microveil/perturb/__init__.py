"""Perturbations by the name a user types. A new one is a file here and a line below."""

from microveil.perturb.base import (
    CarryingPerturbation,
    Column,
    ColumnPerturbation,
    Columns,
    JointPerturbation,
    LabelPerturbation,
    Labels,
    NormalPerturbation,
    Perturbation,
    check_draws,
)
from microveil.perturb.microaggregate import Microaggregate, MicroaggregateNoise, similar_records
from microveil.perturb.mix import Mixed, Mixture, OtherScores, ResidualMix, ScoreMix, SyntheticAddition
from microveil.perturb.noise import CorrelatedNoise, MultiplicativeNoise, Noise, RandomTurn
from microveil.perturb.pram import Pram
from microveil.perturb.recode import Recode
from microveil.perturb.redraw import (
    Bootstrap,
    Normal,
    Parametric,
    Redraw,
    Rotate,
    SmoothedBootstrap,
    Stratified,
    Uniform,
    VanDerWaerden,
)
from microveil.perturb.shuffle import Shuffle
from microveil.perturb.suppress_cells import SuppressCells
from microveil.perturb.swap import RankSwap, Remove, Swap

PERTURBATIONS: dict[str, type[Perturbation]] = {
    "swap": Swap,
    "redraw": Redraw,
    "normal": Normal,
    "parametric": Parametric,
    "noise": Noise,
    "correlated_noise": CorrelatedNoise,
    "rank_swap": RankSwap,
    "shuffle": Shuffle,
    "microaggregate": Microaggregate,
    "microaggregate_noise": MicroaggregateNoise,
    "rotate": Rotate,
    "bootstrap": Bootstrap,
    "smoothed_bootstrap": SmoothedBootstrap,
    "stratified": Stratified,
    "uniform": Uniform,
    "van_der_waerden": VanDerWaerden,
}

# What treats labels: methods of their own, which decompose nothing.
LABEL_PERTURBATIONS: dict[str, type[LabelPerturbation]] = {
    "pram": Pram,
    "recode": Recode,
    "suppress_cells": SuppressCells,
}

# What only the methods made of it use: with another method it would do harm.
RESERVED: dict[str, type[Perturbation]] = {
    "remove": Remove,
    "multiplicative_noise": MultiplicativeNoise,
    "score_mix": ScoreMix,
    "residual_mix": ResidualMix,
    "synthetic_addition": SyntheticAddition,
    "other": OtherScores,
    "turn": RandomTurn,
    **LABEL_PERTURBATIONS,
}
