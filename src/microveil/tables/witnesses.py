"""Possible tables other than the true one: witnesses that a hidden cell can be lower and higher, without programs.

From a point inside the bounds, a direction that moves no published sum leads both ways to points that are possible, up
to where the first cell meets a bound. Directions are drawn in units of the room that each cell has (the ellipsoid of
Dikin 1967), so that small cells hold up no large ones; and for a sum that random directions leave in doubt, the
direction is taken in which it moves most inside that ellipsoid. One sparse factor serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.late import sparse
from microveil.core.tolerances import FINE_ROUND_OFF, TEXT_ROUND_OFF
from microveil.tables.bounds import FEASIBLE, LARGE, CellBounds, propagated
from microveil.tables.reduced import pieces, ridged_factor

RIDGE = 1e-12
"""Added to the diagonal of the normal equations, in units of its largest entry; later steps take it out again."""

STEPS = 3
"""Times that a direction is made to leave the sums alone, at most: each takes away what the one before left."""

AT_ONCE = 32
"""Directions that are taken together."""

RANDOM = 2
"""Rounds of random directions; what is in doubt after them is looked at by itself."""

ESCAPES = 4
"""Times that cells are taken away from their bounds, each time from where the last left them."""

Settled = Callable[[Array, Array], Mask]
"""Says of lows and highs that were seen which sums need no further search."""


def witnessed(
    targets: Any, known: CellBounds, settled: Settled, tell: Callable[[float], None] = lambda _: None
) -> tuple[Array, Array]:
    """How low and how high each row of `targets` was seen (sums x unknown cells): at least that far it can go.

    `known` has the bounds of the cells, `settled` says which sums need no further search, `tell` gets the share done.
    """
    low = targets @ known.point
    high, room = low.copy(), Leeway(known)
    targets = room.widened(targets)
    rng = np.random.default_rng(1)  # which directions are drawn decides how long it takes, and nothing else
    for _ in range(RANDOM):
        room.walk(rng.standard_normal((room.point.size, AT_ONCE)), targets, low, high)
    for _ in range(RANDOM):  # those in doubt by the score, then one by one
        doubtful = targets[np.flatnonzero(~settled(low, high))]
        some = doubtful.T @ rng.standard_normal((doubtful.shape[0], AT_ONCE))
        room.walk(room.width[:, None] * some, targets, low, high)
    left = np.flatnonzero(~settled(low, high))
    for first in range(0, left.size, AT_ONCE):
        tell(first / left.size)
        each = targets[left[first : first + AT_ONCE]]
        room.walk(room.width[:, None] * each.toarray().T, targets, low, high)
    return low, high


class Leeway:
    """The room that cells have around a possible `point`, and the directions in it that leave every sum alone.

    A sum that is known up to bounds only has a cell of its own for what it comes to.
    """

    def __init__(self, known: CellBounds) -> None:
        kept = np.flatnonzero(known.needed)
        loose = np.flatnonzero(known.floor[kept] < known.ceiling[kept])
        sums = known.sums[kept]
        own = sparse.eye_array(kept.size, format="csr")[:, loose]
        self.sums: Any = sparse.csr_array(sparse.hstack([sums, -own]) if loose.size else sums)
        low, high = propagated(known)
        self.low = np.append(low, known.floor[kept[loose]])
        self.high = np.append(high, known.ceiling[kept[loose]])
        self.point = np.append(known.point, (sums @ known.point)[loose])
        self.scale = max(1.0, float(np.abs(self.point).max(initial=0.0)))
        self.unit = max(1.0, self.scale / LARGE)
        parts = [columns for _, columns in pieces(self.sums) if columns.size]
        self.order, self.first = np.concatenate(parts), np.cumsum([0, *(part.size for part in parts[:-1])])
        self.part = np.repeat(np.arange(len(parts)), [part.size for part in parts])[np.argsort(self.order)]
        self._look_around()
        self._leave_the_bounds()

    def widened(self, targets: Any) -> Any:
        """The targets with a column for every cell."""
        return sparse.csr_array((targets.data, targets.indices, targets.indptr), (targets.shape[0], self.point.size))

    def _look_around(self) -> None:
        """The room around the point, and the factor of the sums in its units."""
        below, above = self.point - self.low, self.high - self.point
        self.width = np.clip(np.minimum(np.minimum(below, above), self.scale), 0.0, None)
        self.width[self.width <= TEXT_ROUND_OFF * np.maximum(1.0, np.abs(self.point))] = 0.0
        self.scaled = (self.sums @ sparse.diags_array(self.width)).tocsr()
        normal = self.scaled @ self.scaled.T
        ridge = RIDGE * max(float(normal.diagonal().max(initial=0.0)), 1.0)
        self.factor = ridged_factor(normal, ridge)

    def _leave_the_bounds(self) -> None:
        """Go to where cells that are at a bound, and need not be, have left it.

        They all move by one, and the cells that have room make up for it with the least steps, in its units. Where a
        sum has no such cells, those at a bound in it stay where they are, and may leave when others have left.
        """
        for _ in range(ESCAPES):
            free = self.high - self.low > TEXT_ROUND_OFF * np.maximum(1.0, np.abs(self.point))
            away = np.where(self.point - self.low <= self.high - self.point, 1.0, -1.0) * ((self.width == 0) & free)
            while away.any():
                makes_up = np.zeros_like(away)
                for _ in range(STEPS):
                    makes_up -= self.scaled.T @ self.factor.solve(self.sums @ away + self.scaled @ makes_up)
                direction = away + self.width * makes_up
                stuck = np.abs(self.sums @ direction) > TEXT_ROUND_OFF * self.unit
                if not stuck.any():
                    break
                away[self.sums[np.flatnonzero(stuck)].indices] = 0.0
            if not away.any():
                return
            step = 0.5 * np.minimum(self._steps(direction[:, None])[0], self.scale)[self.part, 0]
            self.point = self.point + step * direction
            self._look_around()

    def walk(self, wanted: Array, targets: Any, low: Array, high: Array) -> None:
        """Go both ways in directions near the wanted ones (cells x directions, in units of the room).

        What is seen of the `targets` (sums x cells) widens `low` and `high`.
        """
        for _ in range(STEPS):
            left = self.scaled @ wanted
            if np.abs(left).max(initial=0.0) <= FINE_ROUND_OFF * self.unit * max(1.0, float(np.abs(wanted).max())):
                break
            wanted = wanted - self.scaled.T @ self.factor.solve(left)
        direction = self.width[:, None] * wanted
        here = (targets @ self.point)[:, None]
        for forth, steps in zip((1.0, -1.0), self._steps(direction), strict=True):
            endless = np.isinf(steps)[self.part] & (direction != 0)
            moved = forth * np.where(endless, 0.0, np.where(np.isinf(steps), 0.0, steps)[self.part] * direction)
            moved[:, np.abs(self.sums @ moved).max(axis=0, initial=0.0) > FEASIBLE * self.unit] = 0.0
            ends = here + targets @ moved
            if endless.any():
                beyond = forth * (targets @ np.where(endless, direction, 0.0))
                ends = np.where(np.abs(beyond) > TEXT_ROUND_OFF * self.scale, np.copysign(np.inf, beyond), ends)
            np.minimum(low, ends.min(axis=1), out=low)
            np.maximum(high, ends.max(axis=1), out=high)

    def _steps(self, direction: Array) -> tuple[Array, Array]:
        """How far each part can go ahead and back until a cell meets a bound: parts x directions."""
        with np.errstate(divide="ignore", invalid="ignore"):
            to_high, to_low = ((side - self.point)[:, None] / direction for side in (self.high, self.low))
        rises = direction > 0
        ahead = np.where(direction == 0, np.inf, np.where(rises, to_high, to_low))
        back = np.where(direction == 0, np.inf, -np.where(rises, to_low, to_high))
        shortest = (np.minimum.reduceat(side[self.order], self.first, axis=0) for side in (ahead, back))
        forth, behind = (np.maximum(steps, 0.0) for steps in shortest)
        return forth, behind
