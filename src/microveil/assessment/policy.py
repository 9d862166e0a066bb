"""Policies: limits on figures, and the verdict on an assessment.

A policy says what somebody has agreed to, not what is safe: meeting it means that these figures, measured by these
attacks, are within these limits. Its file is read strictly: a limit that is misspelt would never be checked, and nobody
would notice.

    [policy]
    name = "research files 2025"
    version = 1

    [limits]
    dbrl = {at_most = 0.02}
    subspace_linkage = {at_most = 0.02, use = "high"}
    pil = {at_most = 0.3}
    summary = {at_most = 0.2}

    [options]
    summary = {dbrl = 2}
    near_leakage = {eps = 0.05}

`use` holds an end of the interval against the limit instead of the figure: "high", "low", or "value" (the default).
`options` are those of measures, and the weights of the parts of scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from microveil.core.errors import ParameterError, did_you_mean
from microveil.io.config_files import Strict, checked, read_config
from microveil.measures.base import Measure, MeasureInfo, plain

POLICY_VERSION = 1

EXAMPLE = "`microveil assess --help` shows one"

ABOUT_CLEAR = {"clear_uniques", "worst_attack", "sample_uniques", "k_anonymity"}
"""Measures that see records that are alone with what is released as it is."""


class Limit(Strict):
    """What a figure may be."""

    at_most: float | None = Field(None, allow_inf_nan=False)
    at_least: float | None = Field(None, allow_inf_nan=False)
    use: Literal["value", "low", "high"] = "value"
    _measure: str = PrivateAttr("")

    @property
    def measure(self) -> str:
        """The id of the measure that it is about: the key of the limit in the file."""
        return self._measure

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

    @property
    def measure(self) -> str:
        """The id of the measure."""
        return self.limit.measure

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found = {"figure": plain(self.figure), "met": self.met, "reason": self.reason}
        return {"measure": self.measure, **self.limit.model_dump(), **found}


@dataclass(frozen=True)
class Verdict:
    """A policy held against an assessment, line by line."""

    policy: str
    lines: tuple[LimitCheck, ...]
    remark: str = ""
    """What the file gives away in clear, if the policy says nothing of it."""

    @property
    def met(self) -> bool:
        """Is every limit met?"""
        return all(line.met for line in self.lines)

    @property
    def failed(self) -> list[str]:
        """The measures whose limits are not met."""
        return [line.limit.measure for line in self.lines if not line.met]

    def __str__(self) -> str:
        """In words, with the measures that fail."""
        failed = "" if self.met else f" ({', '.join(self.failed)})"
        remark = f"; {self.remark}" if self.remark else ""
        return f"policy '{self.policy}' is {'met' if self.met else 'not met'}{failed}{remark}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lines = [line.to_dict() for line in self.lines]
        return {"name": self.policy, "met": self.met, "lines": lines, "remark": self.remark}


@dataclass(frozen=True)
class Policy:
    """Limits with a name; `read_policy` makes one from a file or a dict."""

    name: str
    limits: tuple[Limit, ...]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of measures and weights of scores that it fixes."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures it is about."""
        return tuple(limit.measure for limit in self.limits)

    def check(self, assessment: Any) -> Verdict:
        """Hold the figures of an `Assessment` against the limits."""
        lines = []
        for limit in self.limits:
            measured: Measure | None = assessment.get(limit.measure)
            if measured is None:
                reason = assessment.skipped.get(limit.measure, "it was not asked for")
                lines.append(LimitCheck(limit, None, False, f"not measured: {reason}"))
                continue
            figure = float(getattr(measured, limit.use))
            met = limit.holds(figure)
            lines.append(LimitCheck(limit, figure, met, "" if met else f"{figure:.6g} is not {limit}"))
        return Verdict(self.name, tuple(lines), self._remark(assessment.in_clear))

    def _remark(self, alone: Measure | None) -> str:
        """That a policy is met says nothing of what it has no limit for."""
        if alone is None or not alone.value or set(self.measures) & ABOUT_CLEAR:
            return ""
        share = f"{100 * alone.value:.1f} %"
        return f"it has no limit on clear_uniques, and {share} of the rows are unique on the columns in clear"


class _PolicyHeader(Strict):
    name: str = Field(min_length=1)
    version: int


class _PolicyFile(Strict):
    policy: _PolicyHeader
    limits: dict[str, Limit] = Field(min_length=1)
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)


def read_policy(source: Mapping[str, Any] | str | Path, known: Mapping[str, MeasureInfo]) -> Policy:
    """A policy from a TOML file or a dict of the same shape; `known` are the measures there are.

    The limits must be about these, in the direction in which less would be worse.
    """
    content = source if isinstance(source, Mapping) else read_config(Path(source), EXAMPLE, what="policy")
    found = checked(_PolicyFile, "policy", dict(content), EXAMPLE)
    if found.policy.version != POLICY_VERSION:
        raise ParameterError(
            f"policy: policy.version: {found.policy.version} is not known", f"this microveil reads {POLICY_VERSION}"
        )
    for name, limit in found.limits.items():
        if name not in known:
            raise ParameterError(f"policy: there is no measure '{name}'", did_you_mean(name, known))
        _check_limit(known[name], limit)
        limit._measure = name
    return Policy(found.policy.name, tuple(found.limits.values()), found.options)


def _check_limit(entry: MeasureInfo, limit: Limit) -> None:
    where = f"policy: limits.{entry.id}"
    ends = {key: end for key in ("at_most", "at_least") if (end := getattr(limit, key)) is not None}
    allowed = {"low": ["at_most"], "high": ["at_least"], "neither": ["at_most", "at_least"]}[entry.better]
    if not ends:
        raise ParameterError(f"{where}: says no limit", f"give {' or '.join(allowed)}")
    for key, end in ends.items():
        if key not in allowed:
            raise ParameterError(f"{where}: {entry.better} is better, so {key} is no protection", f"use {allowed[0]}")
        check_range(f"{where}.{key}", entry, end)
    if limit.at_least is not None and limit.at_most is not None and limit.at_least > limit.at_most:
        raise ParameterError(f"{where}: at_least is above at_most", "no figure could meet it")


def check_range(where: str, entry: MeasureInfo, end: float) -> None:
    """A limit that every figure keeps, or none, is a slip of the pen."""
    low, high = entry.range
    if not low <= end <= high:
        raise ParameterError(f"{where}: is outside of the measure's range", f"it is {low:g} to {high:g}")
