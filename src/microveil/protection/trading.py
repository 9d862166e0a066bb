"""Rows that trade their protected cells, so that gaps go elsewhere.

Whose cells they are nobody can tell, once values were exchanged, but for gaps, which are where they were. So rows that
are alike in all that stays in its place trade what does not, at random: no statistic changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Index, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.rng import Stream
from microveil.core.shuffle import traded_places
from microveil.core.table import Microdata
from microveil.intake.unit_rules import Units
from microveil.io.frames.dataframes import Frame

ROWS = "public columns, weights and strata"
IN_UNITS = "the number of rows of their unit, in its larger unit and in what is in clear"
"""What rows must be alike in, and rows of units."""

WENT = (
    "they went to other rows, but cells that were missing together still are: a pattern that is rare tells that "
    "somebody who has it is in the file"
)


@dataclass(frozen=True, repr=False)
class Trade:
    """The row that each gets its protected cells from, and how many rows, or units, it could have got them from."""

    places: Index
    partners: Index

    @classmethod
    def among(cls, alike: NDArray[np.generic] | None, count: int, stream: Stream) -> Trade:
        """A trade of so many rows with those that have the same number in `alike`; None lets all trade with all."""
        places = traded_places(alike, count, stream)
        if alike is None:
            return cls(places, np.full(count, count))
        _, group, sizes = np.unique(alike, return_inverse=True, return_counts=True)
        return cls(places, sizes[group.ravel()])

    @classmethod
    def of_rows(cls, table: Microdata, stream: Stream) -> Trade:
        """A trade of rows that are alike in what stays in its place."""
        return cls.among(table.alike(), table.count, stream)

    @classmethod
    def of_units(cls, frame: Frame, units: Units, place: str | None, stays: Sequence[str], stream: Stream) -> Trade:
        """A trade of units, all rows of one at once, with units of their size that are alike in some columns.

        Args:
            frame: the table.
            units: the unit of each row.
            place: the column that counts the rows of a unit; their order stays. If there is none, that of the table.
            stays: the columns.
            stream: of random numbers.
        """
        alike = np.array([units.sizes, *(frame.labels(name)[units.first] for name in stays)])
        of_units = cls.among(np.unique(alike, axis=1, return_inverse=True)[1].ravel(), units.first.size, stream)
        in_order = units.by(np.arange(frame.count, dtype=float) if place is None else frame.numbers(place))
        of, places = units.of_rows[in_order], np.empty_like(in_order)
        places[in_order] = in_order[np.arange(of.size) + (units.starts[of_units.places] - units.starts)[of]]
        return cls(places, of_units.partners[units.of_rows])

    def remarks(self, gaps: Mapping[str, Mask], within: str = ROWS, larger: Collection[Units] = ()) -> list[str]:
        """What became of gaps, given the rows in which columns have some.

        `within` says what rows are alike in, and `larger` are units inside which rows traded: gaps of theirs stay.
        """
        few, every = np.zeros(self.places.size, dtype=bool), np.any(list(gaps.values()), axis=0)
        for rows in gaps.values():
            stays = any(np.array_equal(rows, rows[units.first][units.of_rows]) for units in larger)
            few |= rows & (stays | (self.partners < FEWEST_RECORDS))
        left = int(np.count_nonzero(few))
        said = [] if left == np.count_nonzero(every) else [WENT]
        if left:
            said.append(
                f"in {left} rows, which fewer than {FEWEST_RECORDS} are like in {within}, they stay in their places or "
                "can be guessed, and tell whoever finds the row what was not answered"
            )
        return [about_gaps(len(gaps), sentence) for sentence in said]


def open_cells(frame: Frame, names: Sequence[str], codes: Mapping[str, Sequence[float]]) -> dict[str, Mask]:
    """The rows in which columns of numbers are missing, or have one of their `codes`, where there are any."""
    cells = {name: frame.numbers(name) for name in names}
    found = {name: np.isnan(own) | np.isin(own, codes.get(name, ())) for name, own in cells.items()}
    return {name: rows for name, rows in found.items() if rows.any()}


def larger_with_columns(
    frame: Frame, units: Units, larger: Sequence[str], protected: Sequence[str]
) -> dict[str, Units]:
    """Of units that are larger than others, given by columns, those with protected columns of their own.

    These stay with them: units trade inside such a one only.
    """
    found, varying = {}, [column for column in protected if np.ptp(frame.labels(column)) > 0]
    for name in larger:
        if not frame.missing(name) and units.is_constant(frame, name):
            own = Units.of(frame, name)
            if any(own.is_constant(frame, column) for column in varying):
                found[name] = own
    return found


def about_gaps(columns: int, sentence: str) -> str:
    """A remark on so many columns that have gaps."""
    have = "a column has" if columns == 1 else f"{columns} columns have"
    return f"{have} cells that are missing or coded; {sentence}"
