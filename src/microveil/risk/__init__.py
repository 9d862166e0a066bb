"""Risk: what an intruder could do with a release, each told as an attacker's story."""

from microveil.core.measure import registry
from microveil.risk.extremes import extreme_disclosure
from microveil.risk.interval import interval_disclosure, interval_disclosure_own, interval_disclosure_sd
from microveil.risk.leakage import LeakageDistribution, NearReturns, expected_near_returns, leakage_distribution
from microveil.risk.linkage import (
    dbrl,
    known_columns_linkage,
    mahalanobis_linkage,
    optimal_linkage,
    rank_linkage,
)
from microveil.risk.subspace import subspace_linkage

# A new attack is a function with its story, and a line here.
MEASURES = registry(
    dbrl,
    mahalanobis_linkage,
    rank_linkage,
    optimal_linkage,
    subspace_linkage,
    known_columns_linkage,
    interval_disclosure,
    interval_disclosure_own,
    interval_disclosure_sd,
    extreme_disclosure,
)

__all__ = [
    "MEASURES",
    "LeakageDistribution",
    "NearReturns",
    "dbrl",
    "expected_near_returns",
    "extreme_disclosure",
    "interval_disclosure",
    "interval_disclosure_own",
    "interval_disclosure_sd",
    "known_columns_linkage",
    "leakage_distribution",
    "mahalanobis_linkage",
    "optimal_linkage",
    "rank_linkage",
    "subspace_linkage",
]
