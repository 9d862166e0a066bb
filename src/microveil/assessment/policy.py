"""Policies: limits on figures, and the verdict on an assessment.

A policy says what somebody has agreed to, not what is safe: meeting it means that these figures, measured by these
attacks, are within these limits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from microveil.measures.base import plain

if TYPE_CHECKING:
    from microveil.assessment.assessment import Assessment

POLICY_VERSION = 1

Use = Literal["value", "low", "high"]
"""What is held against a limit: the figure, or an end of its interval."""


@dataclass(frozen=True)
class Limit:
    """What a figure may be."""

    measure: str
    at_most: float | None = None
    at_least: float | None = None
    use: Use = "value"

    def holds(self, figure: float) -> bool:
        """Is the figure within the limit?"""
        return (self.at_most is None or figure <= self.at_most) and (self.at_least is None or figure >= self.at_least)

    def __str__(self) -> str:
        ends = (("at least", self.at_least), ("at most", self.at_most))
        said = " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)
        return said if self.use == "value" else f"{said} ({self.use} end of the interval)"


@dataclass(frozen=True)
class LimitCheck:
    """One limit and the figure held against it; what was not measured is not met, and the reason says why."""

    limit: Limit
    figure: float | None
    met: bool
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self.limit), "figure": plain(self.figure), "met": self.met, "reason": self.reason}


@dataclass(frozen=True)
class Verdict:
    """A policy held against an assessment, line by line."""

    policy: str
    lines: tuple[LimitCheck, ...]

    @property
    def met(self) -> bool:
        """Is every limit met?"""
        return all(line.met for line in self.lines)

    @property
    def failed(self) -> list[str]:
        """The measures whose limits are not met."""
        return [line.limit.measure for line in self.lines if not line.met]

    @property
    def told(self) -> str:
        """In words, with the measures that fail."""
        failed = "" if self.met else f" ({', '.join(self.failed)})"
        return f"policy '{self.policy}' is {'met' if self.met else 'not met'}{failed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"name": self.policy, "met": self.met, "lines": [line.to_dict() for line in self.lines]}


@dataclass(frozen=True)
class Policy:
    """Limits with a name; `read_policy` makes one from a file or a dict."""

    name: str
    limits: tuple[Limit, ...]

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures it is about."""
        return tuple(limit.measure for limit in self.limits)

    def check(self, assessment: Assessment) -> Verdict:
        """Hold the figures against the limits."""
        return Verdict(self.name, tuple(_held(limit, assessment) for limit in self.limits))


def _held(limit: Limit, assessment: Assessment) -> LimitCheck:
    measured = assessment.get(limit.measure)
    if measured is None:
        reason = assessment.skipped.get(limit.measure, "it was not asked for")
        return LimitCheck(limit, None, False, f"not measured: {reason}")
    figure = float(getattr(measured, limit.use))
    met = limit.holds(figure)
    return LimitCheck(limit, figure, met, "" if met else f"{figure:.6g} is not {limit}")
