"""What is refused of rows that are elsewhere, on a disk or on Spark, before anything is done with them."""

from __future__ import annotations

import numpy as np

from microveil.core.errors import DataError, ParameterError
from microveil.core.profile import Scan
from microveil.core.table import Microdata
from microveil.intake.roles import Roles
from microveil.io.dictionary import Dictionary, find_codes_far
from microveil.io.frames.validation import SMALLEST_TABLE, check_values

NOTHING = np.empty(0)


def check_roles(roles: Roles) -> None:
    """Neither strata nor products of public columns."""
    if roles.strata:
        raise ParameterError("strata: go with engine='memory' only", "protect a file for each stratum, or use memory")
    if any(len(product) > 1 for product in roles.public.products):
        raise ParameterError("public: products of columns go with engine='memory' only", "add them to the data")


def check_count(rows: int) -> None:
    """Enough rows to hide one among others."""
    if rows < SMALLEST_TABLE:
        raise DataError(f"data: has {rows} rows", f"at least {SMALLEST_TABLE} are needed to hide one")


def check_columns(table: Microdata, look: Scan) -> None:
    """Cells that are missing, infinite or cannot be squared."""
    missing = set(look.missing())
    for number, name in enumerate(table.names):
        role = "public" if number < table.public else "confidential"
        low, high = extremes(look, number)
        if np.isinf(low) or np.isinf(high):
            raise DataError(f"{role}: column '{name}' has infinite cells", "make them numbers or leave the column out")
        check_values(role, name, NOTHING, low, high)
        if number in missing:
            raise has_missing(name)


def has_missing(name: str) -> DataError:
    """The error for cells that are not there."""
    return DataError(
        f"column '{name}' has missing cells, and rows that are not in memory must be whole",
        "use engine='memory', or leave the column out",
    )


def public_codes(table: Microdata, look: Scan) -> dict[str, tuple[float, ...]]:
    """The special codes of public columns, which are told; those of others count as missing, and are refused."""
    found = {
        name: codes
        for number, name in enumerate(table.names)
        if (codes := find_codes_far(table.values, number, *extremes(look, number)))
    }
    for name in table.confidential_names:
        if name in found:
            told = ", ".join(f"{code:g}" for code in found[name])
            raise DataError(
                f"column '{name}': {told} looks like a code for missing, and rows that are not in memory must be whole",
                "use engine='memory', or rules='none' if it is a value",
            )
    return found


def check_declares_sums(dictionary: Dictionary) -> None:
    """What else a dictionary can declare needs whole columns."""
    if dictionary != Dictionary(sums=dictionary.sums):
        raise ParameterError(
            "rules: for rows that are not in memory, a dictionary of the columns can declare sums only",
            "use engine='memory'",
        )


def extremes(look: Scan, number: int) -> tuple[float, float]:
    """The least and the largest value of a column."""
    return float(look.minimum[number]), float(look.maximum[number])
