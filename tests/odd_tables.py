"""Odd tables that people bring, by what is odd about them: columns of cells, None where a cell is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS = 60
SECRET = "Zq8"
"""In every text and label that no message may show."""

Columns = dict[str, list[Any]]
_RNG = np.random.default_rng(18)


def _labels(count: int, rows: int = ROWS) -> list[str]:
    return [f"{SECRET}{number}" for number in _RNG.integers(0, count, rows)]


def _amounts(rows: int = ROWS) -> list[float]:
    return np.round(_RNG.lognormal(5, 1, rows), 2).tolist()


def _holed(cells: list[Any], every: int = 4) -> list[Any]:
    return [None if place % every == 1 else cell for place, cell in enumerate(cells)]


ODD: dict[str, Columns] = {
    "text columns only": {"a": _labels(3), "b": _labels(4), "c": _labels(2)},
    "one column of numbers": {"a": _amounts()},
    "one column of labels": {"a": _labels(3)},
    "one column of identifiers": {"id": [f"{SECRET}{number}" for number in range(ROWS)]},
    "only identifiers": {name: [f"{SECRET}{name}{j}@ab.org" for j in range(ROWS)] for name in ("id", "email")},
    "only free text": {"note": [f"{SECRET} went to see {j} about the house again" for j in range(ROWS)]},
    "a constant and an amount": {"a": [f"{SECRET}1"] * ROWS, "b": _amounts()},
    "constants only": {"a": [f"{SECRET}1"] * ROWS, "b": [7.0] * ROWS},
    "empty strings": {"a": ["" if j % 3 else f"{SECRET}{j % 2}" for j in range(ROWS)], "b": _amounts()},
    "blank strings": {"a": [" " * (j % 3) for j in range(ROWS)], "b": _amounts()},
    "labels that differ in case": {"a": [f"{SECRET}ab", f"{SECRET}AB"] * (ROWS // 2), "b": _amounts()},
    "labels that differ in blanks": {"a": [f"{SECRET}a{' ' * (j % 3)}" for j in range(ROWS)], "b": _amounts()},
    "a column all missing": {"a": [None] * ROWS, "b": _amounts(), "c": _labels(3)},
    "all columns missing": {"a": [None] * ROWS, "b": [None] * ROWS},
    "no rows": {"a": [], "b": []},
    "one row": {"a": [1.5], "b": [f"{SECRET}1"]},
    "two rows": {"a": [1.5, 2.5], "b": [f"{SECRET}1", f"{SECRET}2"]},
    "three rows": {"a": [1.5, 2.5, 4.0], "b": [f"{SECRET}1", f"{SECRET}2", f"{SECRET}1"]},
    "duplicate rows": {"a": [2.5, 3.5, 9.25] * 20, "b": [f"{SECRET}1", f"{SECRET}2", f"{SECRET}1"] * 20},
    "rows that are all the same": {"a": [2.5] * ROWS, "b": [f"{SECRET}1"] * ROWS},
    "names of other scripts": {"größe": _amounts(), "年": _labels(3), "a b;c,d\"e": _amounts(), "🙂": _labels(2)},
    "names like options": {"rest": _amounts(), "none": _labels(3), "1": _amounts(), "index": _labels(2)},
    "an empty name": {"": _amounts(), "b": _amounts()},
    "a blank name": {" ": _amounts(), "b": _amounts()},
    "a name that is a pattern": {"^a.*$": _amounts(), "b": _amounts()},
    "booleans": {"a": [bool(j % 2) for j in range(ROWS)], "b": _amounts()},
    "booleans with gaps": {"a": _holed([bool(j % 3) for j in range(ROWS)]), "b": _amounts(), "c": _labels(3)},
    "labels with gaps": {"a": _holed(_labels(4)), "b": _holed(_amounts(), 5), "c": _labels(3)},
    "one value and gaps": {"a": _holed([f"{SECRET}1"] * ROWS), "b": _amounts()},
    "one answer": {"a": [f"{SECRET}1", *[None] * (ROWS - 1)], "b": [8.25, *[None] * (ROWS - 1)], "c": _amounts()},
    "infinite cells": {"a": [float("inf"), *_amounts(ROWS - 1)], "b": _amounts()},
    "huge numbers": {"a": [1e300 * (1 + j) for j in range(ROWS)], "b": _amounts()},
    "long whole numbers": {"a": [2**60 + j * j for j in range(ROWS)], "b": _amounts()},
    "numbers as text": {"a": [f"{j * 1.5:.2f}" for j in range(ROWS)], "b": _amounts()},
    "blurred numbers": {"a": ["<5" if j % 4 else str(j) for j in range(ROWS)], "b": _amounts()},
    "flags only": {"a": [j % 2 for j in range(ROWS)], "b": [j % 3 == 0 for j in range(ROWS)]},
}  # fmt: skip
"""Tables that every kind of table and file can hold."""

MANY_LABELS: Columns = {"a": [f"{SECRET}{j}" for j in _RNG.integers(0, 10_000, 20_000)], "b": _amounts(20_000)}
"""About 8,600 different labels: a post code, a street."""
