"""Firms with labels and figures, and the model matrix of a formula over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from microveil.intake.formula import Terms
from microveil.intake.model_matrix import ModelMatrix, model_matrix
from microveil.intake.roles import regressed
from microveil.io.frames.dataframes import open_frame

MONEY = ["wages", "profit", "debt"]


def firms(rows: int = 240, offset: float = 3.0) -> pd.DataFrame:
    """Every combination of labels has some ten rows, and what is confidential depends on all that is public."""
    rng = np.random.default_rng(5)
    region, size, code = rng.integers(0, 4, rows), rng.integers(0, 3, rows), rng.integers(0, 3, rows)
    x, y, floor = rng.normal(size=(3, rows)) + offset
    told = 2 * region + region * size + x * y + region * x + 3 * (code == 1)
    money = told[:, None] * [1.0, -0.5, 0.2] + rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 3))
    return pd.DataFrame(
        {
            "region": np.array(["north", "east", "south", "west"])[region],
            "size": np.array(["small", "middle", "large"])[size],
            "code": code,
            "x": x,
            "y": y,
            "floor space": floor,
        }
    ).assign(**dict(zip(MONEY, money.T, strict=True)))


FIRMS = firms()


def terms_of(frame: Any, formula: Any) -> Terms:
    opened = open_frame(frame)
    return regressed({name: opened.is_numeric(name) for name in opened.names}, "public", formula)


def matrix_of(frame: Any, formula: Any) -> ModelMatrix:
    return model_matrix(open_frame(frame), terms_of(frame, formula), "public")
