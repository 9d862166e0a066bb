"""What there is: methods, measures, the description of a table, and the bundled survey."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from microveil.assessment import measuring
from microveil.assessment.figures import GAUGES
from microveil.assessment.measure_options import options_of
from microveil.core.errors import ParameterError, did_you_mean
from microveil.intake.describe import Description, describe_table
from microveil.io.frames.dataframes import open_frame
from microveil.measures.base import MeasureInfo, plain
from microveil.methods import METHODS, method_named


def describe(data: Any) -> Description:
    """Columns, domains, special codes, missing cells and linear rules of a table, without any of its values."""
    return describe_table(open_frame(data))


def methods() -> dict[str, str]:
    """The methods: id and one line."""
    return {method.id: method.summary for method in METHODS.values()}


def method_details(name: str) -> dict[str, Any]:
    """A method with its paper and all its parameters, as declared."""
    method = method_named(name)
    return {
        "id": method.id,
        "summary": method.summary,
        "reference": method.reference,
        "parameters": [
            {
                "perturb": group.perturb,
                "summary": group.summary,
                "reference": group.reference,
                "parameters": [dataclasses.asdict(parameter) for parameter in group.parameters],
            }
            for group in method.parameters()
        ],
    }


def measures() -> dict[str, str]:
    """The measures of risk and utility, and the scores: id and one line."""
    return {name: entry.summary for name, entry in measuring.entries().items()}


def measure_details(name: str) -> dict[str, Any]:
    """A measure with its story, range and direction, as declared."""
    known = measuring.entries()
    if name not in known:
        raise ParameterError(f"there is no measure '{name}'", did_you_mean(name, known))
    found = {field.name: plain(getattr(known[name], field.name)) for field in dataclasses.fields(MeasureInfo)}
    gauge = GAUGES.get(name)
    return {**found, "options": {} if gauge is None else plain(options_of(gauge))}


def example_file() -> Path:
    """The bundled business survey: 1,200 invented firms with what real files have."""
    return Path(__file__).parent / "examples" / "business_survey.csv"
