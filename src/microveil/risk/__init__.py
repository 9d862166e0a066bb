"""Risk: what an intruder could do with a release, each told as an attacker's story."""

from microveil.risk.linkage import dbrl

__all__ = ["dbrl"]
