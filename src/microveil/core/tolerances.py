"""Tolerances for round-off: how large an error of arithmetic may be, and why it is as large as that.

A double has 16 digits. Each constant is a share of the size of what was computed. Criteria by which an algorithm has
converged, and thresholds with a statistical meaning, are with the algorithm.
"""

from __future__ import annotations

RANK_TOLERANCE = 1e-7
"""A column that others explain up to this share of its own norm is a linear combination of them (as in RegSDC).

Ranks are decided on squares of norms, and half of the digits are lost in a square. It applies to columns brought to
unit norm first: a rule on raw data would drop every column in small units.
"""

PROGRAM_ROUND_OFF = 1e-7
"""Movements and widths below this are none where a linear program found them: its solver works to about 1e-9 in the
unit of the program, and a path through a table adds up many cells."""

TEXT_ROUND_OFF = 1e-9
"""Numbers that went through a text file, in decimals and perhaps rounded on the way: relations between them (a sum, a
ratio) hold to this share of their terms, and cells that differ by less are the same."""

SUM_ROUND_OFF = 1e-12
"""Sums of some dozens of doubles, such as 0.1 + 0.2: a relation holds to the last digit if it does to this share."""

FINE_ROUND_OFF = 1e-14
"""Some units in the last digit: what a step that takes its own error away again can reach."""

UNIT_ROUND_OFF = 1e-15
"""A few times the distance between neighbouring doubles: no step can reach less."""

# Measures: records and values are in standard deviations of the original.

LINKAGE_TIE = 1e-9
"""Distances, or values, that differ by less are equal: sums of some hundred squares are off by less."""

STATISTIC_ROUND_OFF = 1e-10
"""Moments and correlations that differ by less are kept: releases with exact moments are off by some 1e-12."""

RANGE_ROUND_OFF = 1e-9
"""A figure that is no farther out of its range is at its end."""

DETERMINED_SHARE = 1e-10
"""Share of a column's variance that other columns must leave, else it is computed from them."""
