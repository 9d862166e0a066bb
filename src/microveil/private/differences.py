"""Amounts that are nearly alike: their differences are asked by themselves.

The noise on a correlation is as large for two lengths that differ by a hair as for any two amounts, and hides the hair.
A small difference can be cut off early, so that the sum of its squares needs little noise; the correlation follows from
it. Which amounts are nearly alike, and where differences are cut off, is found from noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from microveil.core.arrays import Array
from microveil.private.mechanism import Account
from microveil.private.moments import NEAR, UNIT, Block, MomentGroup

NEARLY_ALIKE, REACH, LOST = 0.2, 4.0, 0.1
"""Mean square of a difference of features (of variance 1) below which it is asked by itself; root mean squares at which
it is cut off; and the share of it that this may lose."""

Pairs = Mapping[tuple[int, int], Array]
"""Moments by the places of two columns."""


def difference(one: Block, other: Block, sign: float, width: float) -> Block:
    """The difference of two features (with a negative sign: the sum), as a share of a width that it is cut off at.

    It is 0 where a cell is missing, as features are then. Each operation is rounded by itself, so that the difference
    of a record does not depend on others.
    """
    both = (one.features != 0) & (other.features != 0)
    found = np.where(both, np.clip((one.features - sign * other.features) / width, -UNIT, UNIT), 0.0)
    return Block(one.column, np.trunc(found), UNIT**2, np.zeros(1))


def near_moments(
    groups: Sequence[MomentGroup],
    known: Mapping[str, Pairs],
    noise: Mapping[str, float],
    account: Account,
    rho: float,
    counts: Array,
) -> dict[str, dict[tuple[int, int], float]]:
    """Moments of those amounts that are nearly alike, better than they are known, by group and by the places of two.

    Args:
        groups: those with one feature of each amount.
        known: their noisy moments, centred.
        noise: the standard deviation of the noise of these.
        account: pays for what is asked.
        rho: what it may cost.
        counts: records that have both of two columns, columns x columns.
    """
    asked, pairs = [], []
    for group in groups:
        for one, other in group.pairs:
            at, shift = (one.column, other.column), float(one.means[0] * other.means[0])
            moment, both = float(known[group.name][at][0, 0]), float(one.squares[0] + other.squares[0])
            sign = math.copysign(1.0, moment)
            square = max(both - 2 * sign * (moment + shift), 0.0) + 2 * noise[group.name]
            if noise[group.name] > 0 and square < NEARLY_ALIKE:
                asked.append((group.name, at, sign, REACH**2 * square, both, shift))
                pairs.append((difference(one, other, sign, REACH * math.sqrt(square)),) * 2)
    found: dict[str, dict[tuple[int, int], float]] = {}
    query = MomentGroup(NEAR, pairs)
    answers = query.noisy(account, rho, 1.0) if pairs else []
    for (name, at, sign, unit, both, shift), answer in zip(asked, answers, strict=True):
        sd = unit * account.noise_sd(query.sensitivity, rho) / UNIT**2 / counts[at]
        square = max(unit * float(answer[0, 0]) / counts[at], sd)
        trust = noise[name] ** 2 / (noise[name] ** 2 + (sd**2 + (LOST * square) ** 2) / 4)
        direct, better = float(known[name][at][0, 0]), sign * (both - square) / 2 - shift
        found.setdefault(name, {})[at] = trust * better + (1 - trust) * direct
    return found
