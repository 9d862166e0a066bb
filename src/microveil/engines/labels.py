"""Labels through perturbations of labels, and through those of numbers that let them take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.table import Microdata
from microveil.engines.pipeline import Spectrum, labels_of
from microveil.engines.rows import RunContext

NewLabels = tuple[Sequence[NDArray[np.intp]], Mapping[str, Sequence[Any]], Spectrum]
"""Codes of each column, the levels of those that have others than before, and components with remarks on labels."""


def masked(context: RunContext, table: Microdata, spectrum: Spectrum) -> NewLabels:
    """The labels as the method masks them, if it does: with the numbers, as the components know, or by themselves."""
    own, plan = table.labels, context.plan
    if not own.names or not (plan.masks_labels or plan.labels_only):
        return own.codes, {}, spectrum
    if spectrum.masked_labels is not None:
        return own.without_blanks(spectrum.masked_labels), {}, spectrum
    labels = labels_of(context, table)
    codes = own.without_blanks(plan.perturb.mask_labels(labels))
    said = replace(spectrum.with_remark("; ".join(labels.notes)), found={**spectrum.found, **labels.found})
    return codes, labels.new_levels, said
