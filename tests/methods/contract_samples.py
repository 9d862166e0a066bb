"""The methods and perturbations that the contract tests run over, and a table for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.decompose import Components
from microveil.methods import METHODS
from microveil.perturb import PERTURBATIONS

Array = NDArray[np.float64]

# Methods that leave the perturbation and the components open; those that fix them are in test_presets.py, and those
# that choose their components in a way of their own have a file of their own.
OPEN = [name for name, method in METHODS.items() if not method.fixed and method.select is Components]
PAIRS = [(method, perturb) for method in OPEN for perturb in PERTURBATIONS]
every_pair = pytest.mark.parametrize(("method", "perturb"), PAIRS)
every_random_pair = pytest.mark.parametrize(("method", "perturb"), [p for p in PAIRS if PERTURBATIONS[p[1]].random])

# Fitting eight families takes its time, and the contract does not depend on which one is drawn from. A window of a
# tenth of three rows reaches no other row, and is refused.
QUICK: dict[str, dict[str, Any]] = {
    "parametric": {"families": ["normal", "uniform"]},
    "rank_swap": {"rank_window": 0.4},
}

WEIRD_SEED = 918_273_645_546_372_819_918_273_645_546_372_819
NAMES = ["income", "tax", "assets", "debt"]


def table(seed: int = 0, rows: int = 120, columns: int = 4) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns)) + 10


def release_of(data: Any, method: str = "pca", perturb: str = "swap", **options: Any) -> mv.Release:
    return mv.protect(data, method, perturb=perturb, **{**QUICK.get(perturb, {}), **options})
