"""Train on the release, test on the original: are models from the release as good as those from the data themselves?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge, scales
from microveil.measures.labels import LabelPair

MOST_ROWS = 4_000
"""Records that models learn from, and are tested on."""

MOST_TARGETS, MOST_LEVELS = 8, 20
"""Columns that are predicted, drawn at random if there are more; and labels of one that is."""

TOLD_APART = 250
"""Labels of a column that trees can tell apart; rarer ones are one."""

ROUNDS = 50
FEWEST_ROWS = 20

Files = Sequence[Array]
"""The original, the release and, if there is one, the control file: records x columns, numbers before labels."""


@gauge(
    "loss of R² and accuracy if models learn from the release instead of the original, mean over predicted columns",
    range=(-1.0, 1.0),
    cost="slow",
    needs="any",
)
def train_on_release(
    original: Matrix,
    released: Matrix,
    *,
    control: Matrix | None = None,
    labels: LabelPair | None = None,
    seed: int | None = None,
) -> Estimate:
    """Train on the release and test on the original (Esteban et al. 2017), compared with training on the original.

    Boosted trees predict a column from all others: numbers are judged by R², labels by the share of right answers. Some
    learn from one half of the originals, some from as many released records, and both are tested on the other half;
    with a control file, both learn from whole files and are tested on that. R² below 0 is 0. The figure is the mean
    loss over the columns (at most eight, drawn at random), below 0 if the release does better by luck; the parts have
    the mean scores and the largest loss. Chance is what another sample of the population gives.
    """
    known = None if labels is None else labels.of_labels
    files, kinds = _files(original, released, control, known)
    streams = Streams.from_seed(seed)
    train, fresh, test = _samples(files, streams.stream("records"))
    if min(len(train), len(fresh), len(test)) < FEWEST_ROWS:
        raise DataError(f"a model needs {FEWEST_ROWS} records to learn from and as many to be tested on")
    targets = [j for j, levels in enumerate(kinds) if len(kinds) > 1 and (levels == 0 or 2 <= levels <= MOST_LEVELS)]
    if not targets:
        raise DataError("there is no column that others could predict")
    drawn = streams.stream("targets").generator().permutation(targets)[:MOST_TARGETS]
    of_labels = np.array(kinds) > 0
    scores = np.array([[_score(side, test, int(j), of_labels) for side in (train, fresh)] for j in drawn])
    loss = scores[:, 0] - scores[:, 1]
    parts = {"original": scores[:, 0].mean(), "release": scores[:, 1].mean(), "largest": loss.max()}
    return Estimate(float(loss.mean()), chance=0.0, parts={name: float(value) for name, value in parts.items()})


def _files(
    original: Matrix, released: Matrix, control: Matrix | None, labels: LabelPair | None
) -> tuple[Files, list[int]]:
    """The files as arrays, and for each column the number of its levels, 0 for numbers; constant ones are left out."""
    columns = scales(original) if original.shape[1] else {}
    tables = [original, released, *([] if control is None else [control])]
    sides = [[(table.columns[j] - mean) / sd for j, (mean, sd) in columns.items()] for table in tables]
    kinds = [0] * len(columns)
    if labels is not None:
        codes = [labels.original, labels.released, labels.holdout]
        for j, size in enumerate(labels.sizes):
            counts = np.bincount(labels.original[:, j] + 1, minlength=size + 1)
            places = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")  # the most frequent first
            for side, of in zip(sides, codes, strict=False):
                if of is not None:
                    side.append(np.minimum(places[of[:, j] + 1], TOLD_APART).astype(np.float64))
            kinds.append(max(int((counts > 0).sum()), 1))
    if not kinds:
        raise DataError("there is nothing to measure", "both files need columns that vary")
    return [np.column_stack(side) for side in sides], kinds


def _samples(files: Files, stream: Stream) -> tuple[Array, Array, Array]:
    """Records of the original to learn from, as many of the release, and those that are predicted."""
    generator = stream.generator()
    orders = [generator.permutation(len(file)) for file in files]
    if len(files[0]) == len(files[1]):  # the release of a record that is predicted is nothing to learn from
        orders[1] = orders[0]
    old, new, *control = (file[order] for file, order in zip(files, orders, strict=True))
    if control:
        train, test = old[:MOST_ROWS], control[0][:MOST_ROWS]
    else:
        train, test = old[: len(old) // 2][:MOST_ROWS], old[len(old) // 2 :][:MOST_ROWS]
    return train, new[: len(train)], test


def _score(train: Array, test: Array, target: int, of_labels: NDArray[np.bool_]) -> float:
    """R² or the share of right answers for one column (`target`), by trees that learnt from some records.

    `train` and `test` are records x columns, `of_labels` says which columns are labels.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    features = np.delete(np.arange(train.shape[1]), target)
    train, test = (side[~np.isnan(side[:, target])] for side in (train, test))
    truth = test[:, target]
    if len(train) < 2 or len(test) < 2 or np.ptp(truth) == 0:
        return 0.0
    make = HistGradientBoostingClassifier if of_labels[target] else HistGradientBoostingRegressor
    constant = np.ptp(train[:, target]) == 0
    with threadpool_limits(limits=1, user_api="openmp"):
        model = make(max_iter=ROUNDS, early_stopping=False, random_state=0, categorical_features=of_labels[features])
        guess = truth * 0 + train[0, target]
        if not constant:
            guess = model.fit(train[:, features], train[:, target]).predict(test[:, features])
    if of_labels[target]:
        return float(np.mean(guess == truth))
    return float(max(1 - np.square(truth - guess).sum() / np.square(truth - truth.mean()).sum(), 0.0))
