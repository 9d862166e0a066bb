"""Propensity scores: can a logistic regression tell originals from released records?"""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
from microveil.measures.base import SMALL, Estimate, drawn_rows, gauge, scales, standardised

ITERATIONS = 100
TOLERANCE = 1e-8
HALVINGS = 40
ARMIJO = 1e-4
DEPENDENT = 1e-9
"""Terms are dependent where their singular values are below this share of the largest."""

SEPARATED = 1e-6
"""Below this share of its start, the deviance says that the files can be told apart completely."""

MOST_CELLS = 24_000_000
"""Cells of the table of terms (records of both files x terms), beyond which a sample of the records is used. It is the
one large table there is; each step goes through it a piece at a time."""

MOST_COLUMNS = 400
"""Columns at most: of more there are so many products that nearly any two files could be told apart by them."""


@gauge(
    "how well a logistic regression with squares and products tells originals from released records (0: not at all)",
    cost="slow",
    default=True,
    on_disk="passes",
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


@gauge(
    "how well a logistic regression with squares, products and cubes tells originals from released records "
    "(0: not at all)",
    cost="slow",
    default=True,
    on_disk="passes",
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
            return _logistic(linear), False, "not converged: the files can be told apart completely"
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
