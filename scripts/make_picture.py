"""Draw the picture of README.md: four columns of the bundled survey before and after. Run by hand; it is no check."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import microveil as mv
from microveil.report import plots
from microveil.report.internal import distributions

TARGET = Path(__file__).resolve().parent.parent / "docs" / "_static" / "before-after.svg"
COLUMNS = ("employees", "wages", "operating_profit", "energy_cost")


def main() -> None:
    """Write the picture."""
    firms = pl.read_csv(mv.example_file())
    release = mv.protect(firms, weight="weight", seed=2024)
    rows = [row for row in distributions(release.writer.material(release)) if row["column"] in COLUMNS]  # type: ignore[attr-defined]
    title = "Four columns of a survey before (areas) and after (lines)"
    TARGET.write_text(plots.as_file(plots.draw("histograms", title, title, rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
