"""Risk: what an intruder could do with a release, each told as an attacker's story."""

from microveil.risk.leakage import LeakageDistribution, leakage_distribution
from microveil.risk.linkage import dbrl

__all__ = ["LeakageDistribution", "dbrl", "leakage_distribution"]
