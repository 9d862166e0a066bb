"""Can somebody tell originals from released records? By a logistic regression, and by trees, which see more."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.keys import Codes
from microveil.core.rng import Stream, Streams
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
from microveil.measures.base import SMALL, Estimate, check_comparable, drawn_rows, gauge, scales, standardised
from microveil.measures.labels import LabelPair

ITERATIONS = 100
TOLERANCE = 1e-8
HALVINGS = 40
ARMIJO = 1e-4
DEPENDENT = 1e-9
"""Terms are dependent where their singular values are below this share of the largest."""

SEPARATED = 1e-6
"""Below this share of its start, the deviance says that the files differ completely."""

MOST_CELLS = 24_000_000
"""Cells of the table of terms (records of both files x terms), beyond which a sample of the records is used. It is the
one large table there is; each step goes through it a piece at a time."""

MOST_COLUMNS = 400
"""Columns at most: more have so many products that these tell nearly any two files apart."""

MOST_LEVELS = 250
"""Labels of a column that trees can tell apart."""

FOLDS = 5
MOST_ROWS = 10_000
"""Records of each file that take part: enough to see what there is to be seen."""

OF_FOLDS = 1.25
"""Standard deviation of the area for two samples of one population, over that of one whose scores are independent
(Wilcoxon's): the folds learn from each other. Measured for 60 to 1,500 records in either file, 1.2 to 1.4."""

distinction = partial(gauge, cost="slow", default=True, on_disk="passes", on_spark=True)
"""Declares a figure of how well a model tells originals from released records."""


@distinction(
    "how well a logistic regression with squares and products tells originals from released records (0: not at all)"
)
def propensity_2(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Propensity score with second-degree terms, PS2 (Woo et al. 2009; Calviño 2017, §4.1): 4 mean((p - ½)²).

    Both files are put together, and an unpenalised logistic regression on x, x² and all products x_i x_j predicts
    which record comes from where; p is its prediction. If means, variances and covariances are kept exactly, the
    score is 0 *by construction*, however different the files are otherwise: look at `classifier_auc` too.

    No sampling is involved, unless the files are so large that a random sample of their records is used (the note says
    so, and whether the regression converged). Missing cells are set to the original's mean in both files. Chance is the
    mean for two independent samples of one population: terms / records of both files. Files of different lengths are
    compared with their shares: mean((p - c)²) / (c (1 - c)).
    """
    return _propensity(original, released, 2, seed)


@distinction(
    "how well a logistic regression with squares, products and cubes tells originals from released records "
    "(0: not at all)"
)
def propensity_3(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Propensity score with cubes, PS3: as `propensity_2`, with x³ as further terms (and the same products)."""
    return _propensity(original, released, 3, seed)


def _propensity(original: Matrix, released: Matrix, degree: int, seed: int | None) -> Estimate:
    """The score with terms of this `degree`; of many records those that take part are drawn by the `seed`."""
    width, counts = len(scales(original, needed=True)), (original.shape[0], released.shape[0])
    if width > MOST_COLUMNS:
        raise DataError(
            f"{width} columns have more products than a regression can be fitted to (at most {MOST_COLUMNS} columns)",
            "measure fewer columns at a time",
        )
    most = max(MOST_CELLS // (width * (width + 5)), 1_000)
    stream = Streams.from_seed(seed).stream("propensity")  # one for both: the same rows of files of one length
    rows = [drawn_rows(count, most, stream) for count in counts]
    pooled = np.nan_to_num(np.vstack(standardised(original, released, *rows)))
    labels = np.repeat([0.0, 1.0], [rows[0].size, rows[1].size])
    design = _orthonormal(pooled, degree)
    probability, converged, remark = _fitted(design, labels)
    share = labels.mean()
    sampled = sum(counts) > len(pooled)
    notes = [f"from {rows[0].size} and {rows[1].size} records drawn at random"] if sampled else []
    return Estimate(
        float(np.square(probability - share).mean() / (share * (1 - share))),
        chance=min((design.shape[1] - 1) / labels.size, 1.0),
        note="; ".join([*notes, remark]),
        parts={"converged": float(converged)},
    )


def _terms(values: Array, degree: int) -> Array:
    """x, x² and x_i x_j, and x³ for degree 3; not the products of three, which the paper leaves out too."""
    first, second = np.triu_indices(values.shape[1])
    blocks = [values, values[:, first] * values[:, second]]
    if degree == 3:
        blocks.append(values**3)
    return np.hstack(blocks)


def _orthonormal(values: Array, degree: int) -> Array:
    """An orthonormal basis of the terms and the constant, which comes first.

    Powers of one column are nearly collinear, and on heavy tails plain iterations from there diverge. The basis comes
    from the small triangular factor, with the same accuracy as from the terms themselves.
    """
    rows, columns = len(values), _terms(values[:1], degree).shape[1]
    parts = segments(rows, columns)
    pieces = [piece for part in parts for piece in part]
    design = np.empty((rows, 1 + columns))
    terms = design[:, 1:]
    for piece in pieces:
        terms[piece] = _terms(values[piece], degree)
    terms -= terms.mean(axis=0)
    scale = np.sqrt(np.einsum("ij,ij->j", terms, terms) / rows)
    terms /= np.where(scale > 0, scale, 1.0)
    triangles = in_threads([partial(_triangle, terms, part) for part in parts], small=terms.size < SMALL)
    _, singular, right = np.linalg.svd(np.linalg.qr(np.vstack(triangles), mode="r"), full_matrices=False)
    kept = singular > DEPENDENT * singular[0]
    axes = right[kept].T / singular[kept]
    for piece in pieces:
        terms[piece, : axes.shape[1]] = terms[piece] @ axes
    design[:, 0] = 1 / np.sqrt(rows)
    return design[:, : 1 + axes.shape[1]]


def _triangle(terms: Array, pieces: list[slice]) -> Array:
    """The triangular factor of some rows, piece by piece."""
    triangle = np.empty((0, terms.shape[1]))
    for piece in pieces:
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, terms[piece]]), mode="r"))
    return triangle


def _logistic(linear: Array) -> Array:
    return (1 + np.tanh(linear / 2)) / 2


def _deviance(linear: Array, labels: Array) -> float:
    return float(2 * (np.logaddexp(0, linear) - labels * linear).sum())


def _fitted(design: Array, labels: Array) -> tuple[Array, bool, str]:
    """Maximum likelihood by damped Newton steps: the probabilities, whether they are final, and a sentence on it."""
    linear = np.zeros(labels.size)
    start = deviance = _deviance(linear, labels)
    parts, few = segments(*design.shape), design.size < SMALL
    for number in range(1, ITERATIONS + 1):
        # The slope of the log-likelihood and its curvature, turned around.
        probability = _logistic(linear)
        slope, roots = (labels - probability) @ design, np.sqrt(probability * (1 - probability))
        curvature = np.sum(in_threads([partial(_curvature, design, roots, part) for part in parts], small=few), axis=0)
        # A trace of the diagonal keeps the step finite where all weights vanish; it does not move the maximum.
        curvature[np.diag_indices_from(curvature)] += 1e-10 * curvature.diagonal().max() + 1e-300
        step = np.linalg.solve(curvature, slope)
        direction = design @ step
        length, found = _step_length(direction, linear, labels, deviance, float(slope @ step))
        linear += length * direction
        change, deviance = deviance - found, found
        if deviance < SEPARATED * start:
            return _logistic(linear), False, "not converged: the files differ completely"
        if change <= TOLERANCE * deviance:
            return _logistic(linear), True, f"converged in {number} steps"
    return _logistic(linear), False, f"not converged in {ITERATIONS} steps"


def _curvature(design: Array, roots: Array, pieces: list[slice]) -> Array:
    total = np.zeros((design.shape[1], design.shape[1]))
    for piece in pieces:
        weighted = design[piece] * roots[piece, None]
        total += weighted.T @ weighted
    return total


def _step_length(direction: Array, linear: Array, labels: Array, deviance: float, slope: float) -> tuple[float, float]:
    """Half the step until the deviance falls as its slope promises (Armijo); the step, and the deviance there.

    `linear` (n) has the predictors so far, `direction` (n) how they move in a whole step.
    """
    length = 1.0
    for _ in range(HALVINGS):
        found = _deviance(linear + length * direction, labels)
        if found <= deviance - 2 * ARMIJO * length * slope:
            return length, found
        length /= 2
    return 0.0, deviance


@distinction(
    "probability that boosted trees rank a released record above an original one: .5 if they cannot tell them apart",
    range=(0.5, 1),
    needs="any",
)
def classifier_auc(
    original: Matrix,
    released: Matrix,
    *,
    control: Matrix | None = None,
    labels: LabelPair | None = None,
    seed: int | None = None,
) -> Estimate:
    """Out-of-fold area under the curve of gradient-boosted trees.

    Both files are put together, numbers and labels, and cut into five folds, a record and its release in one; trees
    that have learnt from four folds say of the fifth which records were released. It sees what `propensity_2` cannot:
    data with exact moments and wrong shapes.

    Values that stand in both files would push the figure below one half, which is an artefact and no quality. So every
    value is moved at random within half the gap to its neighbours in both files together: copies no longer coincide,
    and the distribution stays. What is left below one half is raised to it (the part "raw" has it as it was). So chance
    is a little above one half: the mean, raised likewise, for two independent samples of one population, whose area is
    about normal around one half. The interval is Hanley and McNeil's (1982) at 95 %. Of more than 10,000 records a
    random sample takes part.

    With a control file (records of the same population that did not enter the release) it takes the place of the
    original: copies of originals are then no better than any other record of the population.
    """
    if control is not None:
        if original.shape[1]:
            check_comparable(original, control, paired=False)
        original = control
    known = None if labels is None else labels.of_labels
    codes = None if known is None else (known.original if control is None else known.holdout, known.released)
    streams = Streams.from_seed(seed)
    counts = (original.shape[0], released.shape[0]) if released.shape[1] else _lengths(codes)
    stream = streams.stream("records")  # one for both: the same rows of files of one length
    rows = [_drawn(count, stream) for count in counts]
    numbers = standardised(original, released, *rows) if original.shape[1] else None
    old, new = numbers or (np.empty((rows[0].size, 0)), np.empty((rows[1].size, 0)))
    raw = _area(old, new, streams.stream("classifier"), _as_categories(codes, rows))
    area, margin = max(raw, 0.5), 1.96 * _standard_error(max(raw, 1 - raw), len(old), len(new))
    sampled = max(counts) > MOST_ROWS
    notes = [f"from {len(old)} and {len(new)} records drawn at random"] if sampled else []
    if raw < 0.5:
        notes.append("it was below one half: many values of the original stand in the release")
    spread = OF_FOLDS * np.sqrt((len(old) + len(new) + 1) / (12 * len(old) * len(new)))
    chance = float(0.5 + spread / np.sqrt(2 * np.pi))  # E max(area, ½) of a normal area
    return Estimate(
        area, max(area - margin, 0.5), min(area + margin, 1.0), chance, note="; ".join(notes), parts={"raw": raw}
    )


def _drawn(count: int, stream: Stream) -> NDArray[np.intp]:
    """All rows, or a random sample of them when there are many, in a random order."""
    if count <= MOST_ROWS:
        return stream.generator().permutation(count)
    return stream.generator().choice(count, MOST_ROWS, replace=False)


def _lengths(codes: tuple[Codes | None, Codes] | None) -> tuple[int, int]:
    if codes is None or codes[0] is None:
        raise DataError("there is nothing to measure", "both files need columns of numbers or labels")
    return len(codes[0]), len(codes[1])


def _as_categories(codes: tuple[Codes | None, Codes] | None, rows: list[NDArray[np.intp]]) -> Array:
    """The labels of some rows of both files, one below the other, with levels from 0; rare ones of many are one."""
    if codes is None or codes[0] is None or not codes[1].shape[1]:
        return np.empty((sum(some.size for some in rows), 0))
    both = np.vstack([codes[0][rows[0]], codes[1][rows[1]]])
    columns = []
    for column in both.T:
        _, level, count = np.unique(column, return_inverse=True, return_counts=True)
        rank = np.argsort(np.argsort(-count, kind="stable"), kind="stable")
        columns.append(np.minimum(rank, MOST_LEVELS - 1)[level.ravel()])
    return np.column_stack(columns).astype(np.float64)


def _area(old: Array, new: Array, stream: Stream, categories: Array) -> float:
    """The area under the curve of predictions for records that were not learnt from.

    `old` and `new` are records x columns, `categories` the labels of both, one below the other.
    """
    from microveil.measures.utility._boosted_trees_kernels import binned, log_odds

    bins = binned(np.hstack([_apart(np.vstack([old, new]), stream.generator()), categories]))
    label = np.repeat([False, True], [len(old), len(new)])
    fold = np.concatenate([np.arange(len(old)), np.arange(len(new))]) % FOLDS
    odds = np.zeros(label.size)
    for asked in (fold == number for number in range(FOLDS)):
        if asked.any() and np.unique(label[~asked]).size == 2:
            odds[asked] = log_odds(bins, label, ~asked)[asked]
    return float((mid_ranks(odds)[label].mean() - (len(new) + 1) / 2) / len(old))


def _apart(values: Array, generator: np.random.Generator) -> Array:
    """Every value moved at random, up to the middle of the gap to its neighbours, so that copies do not coincide."""
    moved = values.copy()
    for column in moved.T:
        there = ~np.isnan(column)
        distinct, which = np.unique(column[there], return_inverse=True)
        if distinct.size > 1:
            gap = np.diff(distinct) / 2
            down, up = np.concatenate([gap[:1], gap])[which], np.concatenate([gap, gap[-1:]])[which]
            column[there] += generator.uniform(-down, up)
    return moved


def _standard_error(area: float, old: int, new: int) -> float:
    """Hanley and McNeil's standard error of an area under the curve."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (new - 1) * (q1 - area**2) + (old - 1) * (q2 - area**2)
    return float(np.sqrt(max(variance, 0.0) / (old * new)))
