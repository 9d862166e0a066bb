"""Membership: was this person in the file at all?

To be in a file may be the secret itself: the patients of a clinic, the clients of a bank. The attack needs no pairing,
nor the order of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, are_many, check_comparable, gauge, standardised
from microveil.measures.labels import LabelPair, indicator_columns
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.risk.control import expected_best
from microveil.measures.risk.links import around_sample
from microveil.measures.risk.proportions import CONFIDENCE, PAIRS, sampled_rows

NEIGHBOURS = 5
"""The distance to the last of so many control records says how dense the population is around a record."""

SMALLEST_GAP = 1e-4
"""Standard deviations that are added to a gap, so that one copied value does not outweigh all other columns."""

RIDGE = 1e-3
"""Added to variances in standard deviations: a sum that holds in every row says nothing of a record."""

FALSE_ALARMS = 0.01

MOST_TERMS = 200
"""Labels that distances are measured by: the most frequent."""

FEWEST = 3
"""Records without which nobody has a neighbour but one."""

Scores = dict[str, Array]
"""For each attack, a number per record: the less, the more it looks like a member."""


@gauge(
    "probability that a record of the file looks more like one of its members than a stranger does, by the best attack",
    range=(0.5, 1),
    cost="slow",
    default=True,
    on_disk="sample",
    needs="any",
)
def membership(
    original: Matrix,
    released: Matrix,
    *,
    control: Matrix | None = None,
    labels: LabelPair | None = None,
    seed: int | None = None,
) -> Estimate:
    """Membership inference without training (Shokri et al. 2017; Hilprecht et al. 2019; van Breugel et al. 2023).

    The intruder has somebody's record and the release, and asks whether that person was in the file. The scores are:

    - `nearest`: the distance to the nearest released record (columns in standard deviations of the original; labels
      that differ count as much as numbers do on average);
    - `density`: that distance over the distance to the fifth nearest record of the control file (without one: to the
      nearest other original);
    - `margin`: that distance over the distance to the second nearest released record;
    - `gaps`: column by column the distance to the nearest released *value*, mean of the logarithms. It finds values
      that were moved a little, or not at all, and given to other records;
    - `moments`, if there is a control file: how much more likely the record is by the means and covariances of the
      release than by those of the control file (Homer et al. 2008; Sankararaman et al. 2009). Where columns are many
      and records few, exact sums give members away though no released record resembles anybody.

    The figure is the area under the curve of the best score, members against strangers, ties counting one half; the
    parts have all areas, and the share of members found where one stranger of a hundred is taken for a member.

    Strangers are the records of a control file of the same population, if there is one. Without one, each original is
    its own stranger: its score against the release is compared with its score against the *other originals*. That is
    right if the release is as dense as the original. It is too low if the release is spread more widely, as with added
    noise or normal draws (`margin`, which does not depend on the spread, then sees most of it), and a little too high
    if it is more concentrated.

    Chance is the mean of the best of the areas, raised to one half, if members and strangers do not differ, with the
    covariances of the areas as measured (DeLong et al. 1988); the interval is that of one of so many. Of many records a
    sample is tried.
    """
    from scipy.special import ndtri

    codes: Sequence[Array] = ()
    if labels is not None:
        codes = indicator_columns(labels.hidden.of_labels, MOST_TERMS)
    found = _scores_of_both(original, released, control, seed, codes)
    if found is None:
        return Estimate(0.5, chance=0.5, note="there are too few records to tell members from strangers")
    names = list(found[0])
    members, strangers = (np.stack([side[name] for name in names]) for side in found)
    areas, covariance = _areas(members, strangers, paired=control is None)
    best = int(areas.argmax())
    luck = expected_best(covariance, Streams.from_seed(seed).stream("luck"))
    tail = 1 - (1 - CONFIDENCE) / 2 / len(names)
    value, margin = max(float(areas[best]), 0.5), float(ndtri(tail) * np.sqrt(covariance[best, best]))
    alarm = np.sort(strangers, axis=1)[:, int(FALSE_ALARMS * strangers.shape[1])]
    caught = (members < alarm[:, None]).mean(axis=1)
    tried = {"": members.shape[1], "control ": 0 if control is None else strangers.shape[1]}
    rows = [side.shape[0] for side in (original, control) if side is not None] if original.shape[1] else [0, 0]
    rows = [len(codes[0]), len(codes[-1])] if codes else rows
    counts = {"": rows[0], "control ": 0 if control is None else rows[-1]}
    sampled = [f"{tried[of]} of {counts[of]} {of}records" for of in tried if tried[of] < counts[of]]
    notes = [f"an estimate from {' and '.join(sampled)}, drawn at random"] if sampled else []
    notes += [f"best by {names[best]}"] if areas[best] > 0.5 else []
    words = [*names, *(f"{name}, found at 1 % false alarms" for name in names)]
    return Estimate(
        value,
        max(value - margin, 0.5),
        min(value + margin, 1.0),
        min(0.5 + luck, 1.0),
        note="; ".join(notes),
        parts=dict(zip(words, map(float, [*areas, *caught]), strict=True)),
    )


def _areas(members: Array, strangers: Array, *, paired: bool) -> tuple[Array, Array]:
    """The areas under the curves of some attacks, and their covariance (DeLong, DeLong and Clarke-Pearson 1988).

    `members` and `strangers` are scores, attacks x records, less for those who look like members. Where each original
    is its own stranger (`paired`), what it adds as the one hangs together with what it adds as the other.
    """
    scores = list(zip(members, strangers, strict=True))
    below = np.stack([1 - _below(np.sort(outside), inside) for inside, outside in scores])
    above = np.stack([_below(np.sort(inside), outside) for inside, outside in scores])
    centred = [side - side.mean(axis=1, keepdims=True) for side in (below, above)]
    sides = [centred[0] + centred[1]] if paired else centred
    return below.mean(axis=1), np.sum([side @ side.T / side.shape[1] ** 2 for side in sides], axis=0)


def _below(ordered: Array, values: Array) -> Array:
    """The share of ordered numbers below each value, equal ones counting one half."""
    share: Array = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    return share / ordered.size


def _scores_of_both(
    original: Matrix, released: Matrix, control: Matrix | None, seed: int | None, codes: Sequence[Array]
) -> tuple[Scores, Scores] | None:
    """Scores of members and of strangers; None if records are too few.

    Columns are in standard deviations of the original, and records without cells are left out. The `seed` draws those
    that are tried, if there are many. `codes` are columns of labels as 0 and 1 of each file, if there are any.
    """
    sides = [*standardised(original, released)] if original.shape[1] else []
    if control is not None and original.shape[1]:
        check_comparable(original, control, paired=False)
        sides.append(standardised(original, control)[1])
    numbers = sides[0].shape[1] if sides else 0
    if codes and codes[0].shape[1]:
        sides = [np.hstack([side, of]) for side, of in zip(sides, codes, strict=True)] if sides else [*codes]
    before, after, *rest = map(_with_cells, sides)
    if not len(after) or any(len(side) < FEWEST for side in (before, *rest)):
        return None
    tried = sampled_rows(len(before), seed, pairs=PAIRS)
    members = before[tried]
    gaps = _log_gaps(members[:, :numbers], after[:, :numbers])
    shared = are_many(len(before)) and not codes and (len(before), len(after)) == (original.shape[0], released.shape[0])
    if shared:
        around = around_sample("dbrl", original, released, tried, others=not rest)
    to_released = around.released_at if shared else _distances(members, after, 2)
    if not rest:
        # The nearest is the record itself.
        to_others = around.others_at[:, 1:] if shared else _distances(members, before, 3)[:, 1:]
        own = _log_gaps(members[:, :numbers], before[:, :numbers], among=True)
        # Each file is the reference of the other, so that neither has an advantage if they are alike.
        return _scores(to_released, to_others[:, 0], gaps), _scores(to_others, to_released[:, 0], own)
    (others,) = rest
    strangers = others[sampled_rows(len(others), seed, pairs=PAIRS)]
    dense = _distances(members, others, NEIGHBOURS)[:, -1]
    sparse = _distances(strangers, others, NEIGHBOURS + 1)[:, -1]
    outside_gaps = _log_gaps(strangers[:, :numbers], after[:, :numbers])
    inside = _scores(to_released, dense, gaps)
    outside = _scores(_distances(strangers, after, 2), sparse, outside_gaps)
    if numbers > 1:
        known = [_distance_by_moments(side[:, :numbers], after[:, :numbers]) for side in (members, strangers)]
        # By the half of the control file that a stranger is not in; members are asked in either half as well.
        half = Streams.from_seed(seed).stream("halves").generator().permutation(len(others)) % 2
        of_strangers = half[sampled_rows(len(others), seed, pairs=PAIRS)]
        for scores, side, own, part in (
            (inside, members, known[0], np.arange(len(members)) % 2),
            (outside, strangers, known[1], of_strangers),
        ):
            by_halves = [_distance_by_moments(side[:, :numbers], others[half != h, :numbers]) for h in (0, 1)]
            scores["moments"] = own - np.where(part == 0, *by_halves)
    return inside, outside


def _with_cells(records: Array) -> Array:
    """Those that have any."""
    some = ~np.isnan(records).all(axis=1)
    return records if some.all() else records[some]


def _distance_by_moments(records: Array, table: Array) -> Array:
    """Minus twice the logarithm of the normal density that a table's means and covariances give each record."""
    cells = np.nan_to_num(table)
    mean = cells.mean(axis=0)
    covariance = np.atleast_2d(np.cov(cells, rowvar=False, ddof=0)) + RIDGE * np.eye(cells.shape[1])
    root = np.linalg.cholesky(covariance)
    scores = np.linalg.solve(root, (np.nan_to_num(records) - mean).T)
    distance: Array = np.square(scores).sum(axis=0) + 2 * np.log(np.diag(root)).sum()
    return distance


def _distances(queries: Array, records: Array, count: int) -> Array:
    """To the nearest records, as many as there are; missing cells are in the middle of their column."""
    found = nearest(np.nan_to_num(queries), np.nan_to_num(records), min(count, len(records)))[1]
    return np.pad(found, ((0, 0), (0, count - found.shape[1])), mode="edge")


def _scores(near: Array, dense: Array, gaps: Array) -> Scores:
    first, second = near[:, 0], near[:, 1]
    # Where both distances are none, a record is as near as can be expected.
    return {
        "nearest": first,
        "density": (first + LINKAGE_TIE) / (dense + LINKAGE_TIE),
        "margin": (first + LINKAGE_TIE) / (second + LINKAGE_TIE),
        "gaps": gaps,
    }


def _log_gaps(records: Array, others: Array, *, among: bool = False) -> Array:
    """The mean over the columns of the logarithm of the distance to the nearest value; missing cells do not count.

    Where the records are `among` the others, each is left out for itself.
    """
    total, known = np.zeros(len(records)), np.zeros(len(records))
    for cells, other in zip(records.T, others.T, strict=True):
        there, column = ~np.isnan(cells), np.sort(other[~np.isnan(other)])
        if column.size > among:
            values = cells[there]
            left, right = (np.searchsorted(column, values, side) for side in ("left", "right"))
            below = np.where(left > 0, values - column[np.maximum(left - 1, 0)], np.inf)
            above = np.where(right < column.size, column[np.minimum(right, column.size - 1)] - values, np.inf)
            gap = np.where(right - left > among, 0.0, np.minimum(below, above))
            total[there] += np.log(gap + SMALLEST_GAP)
            known += there
    return total / np.maximum(known, 1)
