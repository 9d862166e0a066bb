"""A workbook as people make it: titles, empty columns and rows, units in cells, dates of three kinds, totals, a note.

`python tests/messy_workbook.py FILE.xlsx` writes it; `records` are what it means, cell by cell.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl

NAMES = (
    "Personal-ID", "Name", "Abteilung", "Geschlecht", "Eintritt", "Vertrag bis", "Geburtsjahr", "Gehalt", "Stunden",
    "Quote", "Gewicht", "Bemerkung",
)  # fmt: skip
DAY_0 = dt.datetime(1899, 12, 30)


def records(rows: int = 240, seed: int = 8) -> dict[str, list[Any]]:
    """The columns of the table, in the types that they have for somebody who reads them."""
    rng = np.random.default_rng(seed)
    hired = [dt.datetime(2005, 1, 1) + dt.timedelta(days=int(days)) for days in rng.integers(0, 6500, rows)]
    ends = [day + dt.timedelta(days=int(days)) for day, days in zip(hired, rng.integers(200, 4000, rows), strict=True)]
    hours = np.round(rng.choice([20, 30, 38.5, 40], rows) + 0.5 * rng.integers(0, 3, rows), 1)
    salary = np.round(rng.lognormal(8, 0.35, rows) * hours / 40, 2)
    words = ["ruhig", "sehr", "zufrieden", "mit", "dem", "neuen", "Platz", "im", "Haus", "am", "Markt"]
    return {
        "Personal-ID": [f"P-{number:05d}" for number in rng.choice(90_000, rows, replace=False)],
        "Name": [f"Person {number}" for number in rng.permutation(9 * rows)[:rows]],
        "Abteilung": rng.choice(["Einkauf", "Verkauf", "Lager", "Leitung"], rows, p=[0.3, 0.4, 0.25, 0.05]).tolist(),
        "Geschlecht": rng.choice(["w", "m"], rows).tolist(),
        "Eintritt": hired,
        "Vertrag bis": [int(f"{day:%Y%m%d}") for day in ends],
        "Geburtsjahr": rng.integers(1958, 2001, rows).tolist(),
        "Gehalt": salary.tolist(),
        "Stunden": hours.tolist(),
        "Quote": rng.integers(5, 100, rows).tolist(),
        "Gewicht": np.round(rng.normal(75, 12, rows), 1).tolist(),
        "Bemerkung": [" ".join(rng.choice(words, 7)) for _ in range(rows)],
    }


def german(number: float, decimals: int) -> str:
    """1234.5 as 1.234,50."""
    return f"{number:,.{decimals}f}".translate(str.maketrans(",.", ".,"))


def written(name: str, row: int, value: Any) -> Any:
    """A cell as somebody typed it: the third kind of date in every row is another one."""
    if name == "Eintritt" and row % 9 == 3:
        return f"{value:%d.%m.%Y}"
    if name == "Eintritt" and row % 9 == 5:
        return (value - DAY_0).days
    if name == "Gehalt":
        return f"{german(value, 2)} €"
    if name == "Gewicht":
        return f"{german(value, 1)} kg"
    return f"{value} %" if name == "Quote" else value


def write(path: Path, rows: int = 240, seed: int = 8) -> Path:
    """Write the workbook; what is not in its first sheet is nobody's business."""
    columns = records(rows, seed)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Personal"
    sheet["B1"] = "Personalliste, Stand 31.12.2023"
    sheet["B2"] = "vertraulich"
    places = [2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14]  # A and F are empty
    for place, name in zip(places, NAMES, strict=True):
        sheet.cell(4, place, name)
    line = 5
    for row in range(rows):
        line += row in (60, 150)  # an empty row between two groups
        for place, name in zip(places, NAMES, strict=True):
            sheet.cell(line, place, written(name, row, columns[name][row]))
        line += 1
    sheet.cell(line, 2, "Summe")
    sheet.cell(line, 10, f"{german(sum(columns['Gehalt']), 2)} €")
    sheet.cell(line, 11, float(np.round(sum(columns["Stunden"]), 1)))
    sheet.cell(line + 2, 2, "Quelle: eigene Erhebung")
    book.create_sheet("Notizen").append(["nicht weitergeben"])
    book.save(path)
    return path


if __name__ == "__main__":
    write(Path(sys.argv[1]))
