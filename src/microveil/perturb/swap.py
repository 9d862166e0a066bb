"""Swapping: the scores stay, their owners change."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.shuffle import shuffled
from microveil.perturb.base import CarryingPerturbation, Column, Permutations, check_given


class Swap(CarryingPerturbation):
    """Put the values in random order, each component in an order of its own.

    Calviño (2017), §3.1. The distribution of every component comes back exactly, so the means do too; the
    covariances do on average (components are uncorrelated, their swapped selves only nearly so).
    """

    reference: ClassVar[str] = "Calviño (2017), §3.1"
    keeps_mean: ClassVar[bool] = True
    knows_weights: ClassVar[bool] = False
    permutes: ClassVar[bool] = True

    permutations: Permutations = None

    def apply(self, column: Column) -> Array:
        """`values[permutation]`, with a uniformly random permutation."""
        if self.permutations is not None:
            return column.values[self.permutations[:, column.position]]
        return shuffled(column.values, column.stream)

    def check(self, rows: int, columns: int) -> None:
        """Given permutations must be permutations."""
        check_given("permutations", self.permutations, rows, columns)
        if self.permutations is not None and (np.sort(self.permutations, axis=0) != np.arange(rows)[:, None]).any():
            raise ParameterError(
                f"permutations: a column does not hold each of 0 ... {rows - 1} once", "count rows from 0"
            )
