"""Risk in the population: a key that is rare in a sample may be common among all whom the sample stands for."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.keys import KeyCounts, key_counts
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge
from microveil.measures.labels import LabelPair
from microveil.measures.risk.anonymity import keys_of

WHOLE = 1e-5
"""Share of the population of a key that is not in the sample, below which all of it is."""


@gauge("largest probability of a record to be found by its labels, by the weights", needs="others")
def individual_risk(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder finds a record with the labels of somebody in the population: how likely is it that person?

    The risk of Benedetti and Franconi (1998), as in sdcMicro: the mean of 1/F over what the frequency f of a key in the
    sample and the sum of its weights tell of its frequency F in the population. Without weights the file is the
    population, and the risk is 1/f. `above_0.1` is the share of records with a larger one.
    """
    risk = individual_risks(_counts(labels))
    return Estimate(
        float(risk.max()), parts={"median": float(np.median(risk)), "above_0.1": float(np.mean(risk > 0.1))}
    )


@gauge("expected share of the records that are found by their labels, by the weights", needs="others")
def global_risk(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder tries to find all records of the release in the population: what share is right?

    The mean of the individual risks (sdcMicro's global risk); `records` is their sum, the number to be expected.
    """
    risk = individual_risks(_counts(labels))
    return Estimate(float(risk.mean()), parts={"records": float(risk.sum())})


def _counts(labels: LabelPair) -> KeyCounts:
    codes, weights = labels.released[:, keys_of(labels)], labels.weights
    if weights is not None and weights.size != len(codes):
        raise DataError("the weights are of other rows than the release", "give both files with the same rows")
    return key_counts(codes, weights)


def individual_risks(counts: KeyCounts) -> Array:
    """The risk of each record (Benedetti and Franconi 1998; Templ, Kowarik and Meindl 2015, §2.4).

    Exactly where one or two of the sample have its key, and to first order where more have.
    """
    f = counts.sample.astype(np.float64)
    share = np.minimum(f / counts.population, 1.0)
    out = np.maximum(1 - share, WHOLE)
    odds, logs = share / out, -np.log(share)
    risk = share / (f - (1 - share))
    partly = share < 1 - WHOLE
    risk = np.where((f == 1) & partly, odds * logs, risk)
    exact: Array = np.where((f == 2) & partly, odds - np.square(odds) * logs, risk)
    return exact
