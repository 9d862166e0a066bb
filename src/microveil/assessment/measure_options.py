"""Options of measures and weights of scores, as somebody asks for them: checked before anything is measured.

    {"ssim": {"window": 7}, "summary": {"dbrl": 2}}

An option is one of the function that measures; a weight is that of a part of a score, in the place of the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from microveil.assessment.figures import GAUGES
from microveil.core.errors import ParameterError, did_you_mean
from microveil.measures.base import Measure, MeasureSpec
from microveil.measures.utility import SCORES

MeasureOptions = Mapping[str, Mapping[str, Any]]
"""Values by the id of a measure or score and the name of an option or part."""

ELSEWHERE = {
    "seed": "use seed=",
    "sensitive": "use sensitive=",
    "control": "use holdout=",
    "labels": "labels come with the files",
    "sample": "it goes with engine='stream'",
    "pairs": "it is a matter of speed",
}
"""Arguments of measures that are no options: other options of `assess` say them."""


def options_of(gauge: MeasureSpec) -> dict[str, Any]:
    """The options of a measure with their defaults."""
    return {name: default for name, default in gauge.arguments.items() if name not in ELSEWHERE}


def checked_options(given: Any, where: str = "measure_options") -> dict[str, dict[str, Any]]:
    """The options by the id of their measure; `where` they were given is named if something is wrong with them."""
    if given is None:
        return {}
    known = {**GAUGES, **SCORES}
    shape = "give {id: {option: value}}, or on the command line ID.NAME=VALUE"
    if not isinstance(given, Mapping) or not all(isinstance(of, Mapping) for of in given.values()):
        raise ParameterError(f"{where}: takes options by the id of a measure", shape)
    for name in given:
        if name not in known:
            raise ParameterError(f"{where}: there is no measure '{name}'", did_you_mean(name, known))
    weighed = {name: _weights(name, of, where) for name, of in given.items() if name in SCORES}
    return weighed | {name: _options(name, of, where) for name, of in given.items() if name not in SCORES}


def _weights(name: str, given: Mapping[str, Any], where: str) -> dict[str, float]:
    """All weights of a score: those given, and the paper's for the other parts."""
    score = SCORES[name]
    for part, weight in given.items():
        if part not in score.parts:
            raise ParameterError(f"{where}: {name} has no part '{part}'", did_you_mean(part, score.parts))
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise ParameterError(f"{where}: {name}.{part}: is a weight", "give a number of 0 or more")
    weights = {**score.own_weights, **given}
    if not sum(weights.values()) > 0:
        raise ParameterError(f"{where}: {name}: all weights are 0", "leave one part in")
    return weights


def _options(name: str, given: Mapping[str, Any], where: str) -> dict[str, Any]:
    from pydantic import TypeAdapter, ValidationError

    gauge = GAUGES[name]
    known = options_of(gauge)
    found = {}
    for key, value in given.items():
        if key in ELSEWHERE and gauge.takes(key):
            raise ParameterError(f"{where}: {name}.{key} is no option of the measure alone", ELSEWHERE[key])
        if key not in known:
            hint = did_you_mean(key, known) if known else f"{name} has none"
            raise ParameterError(f"{where}: {name} has no option '{key}'", hint)
        kind = get_type_hints(gauge.function)[key]
        try:
            plain = tuple(value) if isinstance(value, list) else value
            found[key] = TypeAdapter(kind).validate_python(plain, strict=True)
        except ValidationError:
            kinds = str(getattr(kind, "__name__", kind)).replace("typing.", "")
            raise ParameterError(f"{where}: {name}.{key}: is not of the kind {kinds}", "see its story") from None
    return found


def noted(found: Measure, given: Mapping[str, Any] | None) -> str:
    """The note of a figure, with the options it was measured with."""
    said = ", ".join(f"{name} = {value}" for name, value in (given or {}).items())
    return "; ".join(filter(None, [f"with {said}" if said else "", found.note]))
