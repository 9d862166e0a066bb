"""Suppressed tables: what to hide in a table of counts or amounts, what to put in its place, and an attack on it."""

from microveil.tables.audit import Intervals, audit, intervals
from microveil.tables.fill import CellSum, Filled, fill, fitted
from microveil.tables.rules import Dominance, FewContributors, PPercent, SmallCount
from microveil.tables.suppress import Suppressed, as_suppressed, suppress
from microveil.tables.table import Table
