"""Tolerances: below which differences are round-off, and nothing that the data say."""

from __future__ import annotations

# Measures: records and values are in standard deviations of the original.

LINKAGE_TIE = 1e-9
"""Distances, or values, that differ by less are equal: sums of some hundred squares are off by less."""

STATISTIC_ROUND_OFF = 1e-10
"""Moments and correlations that differ by less are kept: releases with exact moments are off by some 1e-12."""

RANGE_ROUND_OFF = 1e-9
"""A figure that is no farther out of its range is at its end."""

DETERMINED_SHARE = 1e-10
"""Share of a column's variance that other columns must leave, else it is computed from them."""
