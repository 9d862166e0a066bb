"""The reference data of the papers, which are not ours to ship.

They are looked for in the folder that MICROVEIL_REFERENCE_DATA names, then in `../shared/data` beside the
repository. A test that finds none is skipped; it has a sibling on data of our own that always runs.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

VARIABLE = "MICROVEIL_REFERENCE_DATA"
REPOSITORY = Path(__file__).resolve().parents[1]


def reference_file(name: str) -> Path:
    """The path of a reference file; skips the calling test where there is none."""
    return _found(name, _folders())


def golden_file(name: str) -> Path:
    """What sdcMicro made of the reference data, in `golden/sdcmicro` beside their folder; skips where there is none."""
    return _found(name, [folder.parent / "golden" / "sdcmicro" for folder in _folders()])


def sdcmicro_labels(data: str, result: str) -> tuple[NDArray[np.int64], NDArray[np.float64], dict[str, Any]]:
    """Keys of a file as codes (records x columns), its weights, and what sdcMicro found; skips where there is none."""
    folders = [folder.parent / "golden" / "labels" for folder in _folders()]
    found = json.loads(_found(f"{result}.json", folders).read_text(encoding="utf-8"))
    names, values = _numbers(reference_file(f"{data}.csv"))
    columns = {name.strip('"'): values[:, j] for j, name in enumerate(names)}
    keys = [np.unique(columns[name], return_inverse=True)[1] for name in found["keys"]]
    return np.column_stack(keys).astype(np.int64), columns[found["weight"]], found


def _folders() -> list[Path]:
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    return [*named, REPOSITORY.parent / "shared" / "data"]


def _found(name: str, folders: list[Path]) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    pytest.skip(f"{name} is in none of {', '.join(map(str, folders))}; {VARIABLE} names its folder")


def golden(name: str) -> tuple[list[str], NDArray[np.float64]]:
    """The columns and numbers of a golden file."""
    return _numbers(golden_file(name))


def _numbers(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    with path.open(encoding="utf-8") as lines:
        header = lines.readline().strip().split(",")
    return header, np.loadtxt(path, delimiter=",", skiprows=1)


def census() -> tuple[list[str], NDArray[np.float64]]:
    """Census: 1080 records, 13 columns, PTOTVAL = POTHVAL + PEARNVAL among them."""
    return _numbers(reference_file("CASCrefmicrodata.csv"))


def tarragona() -> tuple[list[str], NDArray[np.float64]]:
    """Tarragona: the 832 distinct records (of 834) that Calviño (2017) uses, in their order; 13 columns."""
    names, values = tarragona_834()
    _, first = np.unique(values, axis=0, return_index=True)
    return names, values[np.sort(first)]


def tarragona_834() -> tuple[list[str], NDArray[np.float64]]:
    """Tarragona as it comes: two of the 834 records are twins of others. sdcMicro's results are of these."""
    return _numbers(reference_file("Tarragona.csv"))


def census_12() -> tuple[list[str], NDArray[np.float64]]:
    """Census without POTHVAL, as the papers use it: PTOTVAL is then no sum."""
    names, values = census()
    chosen = [j for j, name in enumerate(names) if name != "POTHVAL"]
    return [names[j] for j in chosen], values[:, chosen]


def eia(rows: int = 1500) -> tuple[list[str], NDArray[np.float64]]:
    """EIA: the ten columns of revenue and sales, their first distinct records; totals hold in 94 % of them."""
    path = reference_file("EIA.csv")
    with path.open(encoding="utf-8", newline="") as lines:
        header, *records = csv.reader(lines)
    first = header.index("RESREVENUE")
    values = np.array([record[first:] for record in records], dtype=float)
    _, places = np.unique(values, axis=0, return_index=True)
    return header[first:], values[np.sort(places)][:rows]
