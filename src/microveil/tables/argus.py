"""The text files of tau-argus, which pytauargus and rtauargus read and write: hierarchies, and cells to be kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from microveil.core.errors import DataError
from microveil.storage.atomic import atomic_target
from microveil.tables.hierarchy import LEAD, Hierarchy, read_hrc, text_lines

__all__ = ["read_apriori", "read_hrc", "write_hrc"]


def write_hrc(hierarchy: Hierarchy, path: str | Path, lead: str = LEAD) -> None:
    """The codes of a dimension as a .hrc file, without the total."""
    depth = [-1]
    for above in hierarchy.above[1:].tolist():
        depth.append(depth[above] + 1)
    lines = [f"{lead * level}{code}\n" for level, code in zip(depth[1:], hierarchy.codes[1:], strict=True)]
    with atomic_target(Path(path)) as target:
        target.write_text("".join(lines), encoding="utf-8")


def read_apriori(path: str | Path, dimensions: Sequence[str], separator: str = ",") -> Mapping[str, list[Any]]:
    """The cells that a file of a priori information (.hst) protects from being hidden, as columns for `priority`.

    Its other entries (cells that are unsafe or safe by decree, costs, protection levels) have no equal here and are
    refused, so that none is passed over in silence.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*dimensions, "priority")}
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        *codes, status = (part.strip().strip('"') for part in line.split(separator))
        if len(codes) != len(dimensions) or status.lower() != "p":
            raise DataError(
                f"{Path(path).name}, line {number}: not {len(dimensions)} codes and the status p",
                "cells to be shown are all that can be read; say other things by rules and priorities",
            )
        for name, code in zip(dimensions, codes, strict=True):
            columns[name].append(code)
        columns["priority"].append(math.inf)
    return columns
