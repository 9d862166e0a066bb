"""What the tests of reports share: a table, a release of it with everything a report can be given, and a search."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.assessment.assessment import Assessment
from microveil.release.release import Release

SEED = 7_340_921_855


PLOTS = {
    "internal": {
        "attacks", "ru_map", "scree", "altered", "weights", "losses", "histograms", "quantiles", "correlations",
    },
    "public": {"losses", "tenths", "correlations"},
}  # fmt: skip


def people(rows: int = 400) -> pl.DataFrame:
    """Skewed columns with long decimals, a total, whole numbers and a heap of zeros; extremes that stand out."""
    rng = np.random.default_rng(11)
    common = rng.normal(size=rows)
    wages = np.round(np.exp(9 + 0.7 * common + 0.3 * rng.normal(size=rows)), 2)
    other = np.round(np.where(rng.random(rows) < 0.3, 0, np.exp(6 + rng.normal(size=rows))), 2)
    age = np.round(40 + 10 * common + 8 * rng.normal(size=rows)) + 1000
    return pl.DataFrame({"wages": wages, "other": other, "total": np.round(wages + other, 2), "age": age})


@dataclasses.dataclass(frozen=True)
class Case:
    """A release with everything a report can be given, and both reports."""

    data: pl.DataFrame
    release: Release
    assessment: Assessment
    study: mv.Study
    html: dict[str, str]
    json: dict[str, dict[str, Any]]
    folder: Path


def strictly(path: Path) -> dict[str, Any]:
    """JSON as the standard has it: NaN and Infinity are no numbers."""

    def refuse(word: str) -> None:
        pytest.fail(f"{word} is no JSON")

    told = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert isinstance(told, dict)
    return told


def public_texts(case: Case) -> str:
    return case.html["public"] + (case.folder / "public.json").read_text(encoding="utf-8")


def written(value: float) -> set[str]:
    """A number as reports, files and people write it."""
    forms = {
        f"{value:{form}}" for form in ("", "g", ".6g", ".4g", ".1f", ".2f", ".0f", ",.0f", ",.2f", "e", ".3e", ".4e")
    }
    forms |= {repr(value), str(int(value)), f"{value:,.2f}".replace(",", " "), f"{value:.2f}".replace(".", ",")}
    return {form for form in forms if len(re.sub(r"\D", "", form)) >= 4}  # 0 and 12 are everywhere


def holds(text: str, form: str) -> bool:
    """Is the number there, and not merely some of the digits of another?"""
    return form in text and re.search(rf"(?<![\d.,]){re.escape(form)}(?![\d])", text) is not None


class Page(HTMLParser):
    """The elements and attributes of a page, as a browser takes them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
