"""Post-randomisation: each label stays, or becomes another one, with probabilities that are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.keys import Codes
from microveil.core.rng import Stream
from microveil.perturb.base import LabelPerturbation, Labels, label_text, not_percent

ROUND_OFF = 1e-6
"""By how much the sum of given probabilities may miss 1."""

Transitions = Mapping[str, Mapping[str, float]]
"""For a label, the probabilities of what it becomes."""


class Pram(LabelPerturbation):
    """Let each label stay with a certain probability, or become another one (post-randomisation method).

    A label stays with probability `retention`; else it is drawn anew from the frequencies of its column. So the
    frequencies come back on average, whatever they are (invariant PRAM: t'R = t'). Transition probabilities can be
    given instead; they are made invariant by a second step back (Gouweleeuw et al. 1998, §4: R = P Q with Q_kj = P_jk
    t_j / sum_i P_ik t_i), unless this is not wanted. Missing cells are a level like others, and labels that given
    probabilities do not name stay. Each column is randomised by itself, so relations between columns weaken; a column
    that follows from another is made of that one anew, and pairs of labels that never meet are parted.
    """

    reference: ClassVar[str] = "Kooiman, Willenborg and Gouweleeuw (1997); Gouweleeuw et al. (1998)"
    follows_rules: ClassVar[bool] = True
    needs_levels: ClassVar[bool] = True

    retention: Annotated[float, not_percent("a probability")] = Field(
        default=0.8, ge=0, lt=1, description="the probability that a label is not drawn anew"
    )
    matrix: Mapping[str, Transitions] | None = Field(
        default=None,
        description="by column, the probabilities of what a label becomes, instead of those that retention makes",
        json_schema_extra={"allowed": 'such as {"sex": {"f": {"f": 0.9, "m": 0.1}, "m": {"f": 0.1, "m": 0.9}}}'},
    )
    invariant: bool = Field(
        default=True, description="keep the frequencies on average; else other labels are equally likely"
    )

    @property
    def keeps_frequencies(self) -> bool:
        """Invariant probabilities do."""
        return self.invariant

    def mask_labels(self, labels: Labels) -> Codes:
        """The codes, each column drawn by itself."""
        strange = [name for name in self.matrix or () if name not in labels.names]
        if strange:
            raise ParameterError(f"matrix: column '{strange[0]}' is not randomised", "name columns of confidential")
        new = np.empty_like(labels.codes)
        for j, name in enumerate(labels.names):
            codes, stream = labels.codes[:, j], labels.stream.child(name)
            given = (self.matrix or {}).get(name)
            if given is not None:
                new[:, j] = self._by_matrix(codes, name, given, labels.levels[j], stream)
            else:
                new[:, j] = drawn_anew(codes, self.retention, stream, invariant=self.invariant)
        return new

    def _by_matrix(self, codes: Codes, name: str, given: Transitions, levels: Sequence[Any], stream: Stream) -> Codes:
        """A column through given probabilities; `levels` are what its codes stand for."""
        places, matrix = matrix_of(name, given, levels)
        local = np.full(len(levels) + 1, -1)
        local[places] = np.arange(places.size)
        at = local[codes]
        concerned = at >= 0
        if self.invariant:
            matrix = invariant_matrix(matrix, np.bincount(at[concerned], minlength=places.size))
        cumulated = np.cumsum(matrix, axis=1)
        luck, new = stream.uniform(codes.size), codes.copy()
        for row in range(places.size):
            own = at == row
            chosen = np.searchsorted(cumulated[row], luck[own] * cumulated[row, -1], side="right")
            new[own] = places[np.minimum(chosen, places.size - 1)]
        return new


def drawn_anew(codes: Codes, retention: float, stream: Stream, *, invariant: bool) -> Codes:
    """A column of which each label stays with probability `retention`, or is drawn anew.

    From the frequencies of the column, as the label of a random record (`invariant`), or from the other labels.
    """
    rows = codes.size
    stays = stream.child("stays").uniform(rows) < retention
    luck = stream.child("drawn").uniform(rows)
    if invariant:
        drawn = codes[np.minimum((luck * rows).astype(np.int64), rows - 1)]
    else:
        levels, at = np.unique(codes, return_inverse=True)
        others = max(levels.size - 1, 1)
        step = 1 + np.minimum((luck * others).astype(np.int64), others - 1)
        drawn = levels[(at.ravel() + step) % levels.size]
    return np.where(stays, codes, drawn)


def matrix_of(name: str, given: Transitions, levels: Sequence[Any]) -> tuple[Codes, Array]:
    """The codes of the labels that are named, and the probabilities that one becomes another.

    `name` is that of the column, and `levels` are what its codes stand for.
    """
    known = {label_text(level): code for code, level in enumerate(levels) if level is not None}
    wanted = dict.fromkeys([*given, *(label for row in given.values() for label in row)])
    if any(label not in known for label in wanted):
        raise ParameterError(f"matrix: column '{name}' has no such label in the data", "name labels that occur")
    if any(label not in given for label in wanted):
        raise ParameterError(f"matrix: column '{name}' lacks a row for a label", "say what becomes of each label named")
    matrix = np.array([[float(given[label].get(other, 0.0)) for other in wanted] for label in wanted])
    if (matrix < 0).any() or (np.abs(matrix.sum(axis=1) - 1) > ROUND_OFF).any():
        raise ParameterError(f"matrix: probabilities of column '{name}' do not add up to 1", "check each row")
    return np.array([known[label] for label in wanted], dtype=np.int64), matrix


def invariant_matrix(matrix: Array, frequencies: NDArray[np.int64]) -> Array:
    """The matrix followed by the step back that brings frequencies back on average (Gouweleeuw et al. 1998)."""
    joint = matrix * np.asarray(frequencies, dtype=np.float64)[:, None]
    after = joint.sum(axis=0)
    back = np.divide(joint, after, out=np.zeros_like(joint), where=after > 0).T
    invariant: Array = matrix @ back
    # Labels that nobody has, before or after, stay where they are.
    short = 1 - invariant.sum(axis=1)
    invariant += np.diag(np.where(np.abs(short) > ROUND_OFF, short, 0.0))
    return invariant
