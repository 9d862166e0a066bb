"""Rotation: the column as a vector, turned to a random direction."""

from __future__ import annotations

from typing import ClassVar

from microveil.core.arrays import Array
from microveil.perturb.base import Column, NormalPerturbation


class Rotate(NormalPerturbation):
    """Turn the component, as a vector with a place for each record, to a random direction.

    The map is a random orthogonal one that leaves the mean alone, all such maps being equally likely (Haar measure).
    Where it sends a vector is then uniform on the sphere of its length, so the image is drawn there at once: normal
    deviates about their mean, brought to the component's length. Mean and variance come back exactly, no value does.
    With survey weights it is the weighted mean and the weighted length.
    """

    reference: ClassVar[str] = "Perkonoja and Virta (2024), O-variant"
    replaces: ClassVar[bool] = True
    keeps_mean: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """A uniformly random vector of the same mean and length."""
        return column.brought_to_own_moments(self.deviates(column))
