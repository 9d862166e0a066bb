"""Numbers as people write them for people: with a unit that all cells of a column share, and with thousands apart.

Only units that are known are taken for one: a code such as K50 or 12A is none, however many cells share its letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from microveil.core.late import pl
from microveil.io.files.formats import MISSING

SAMPLE: Final = 1000
"""Cells that settle for most columns of text that they have no unit."""

_BLANKS: Final = r" \t\x{a0}\x{202f}"
_CODES: Final = "EUR Euro euro eur USD usd GBP CHF JPY SEK NOK DKK PLN CZK HUF AUD CAD CNY INR BRL MXN TEUR TDM DM"
_SIGNS: Final = "€ $ £ ¥"
_UNITS: Final = (
    "% ‰ ° °C °F kg mg µg Tonnen km cm mm ml cl dl ha m² m2 km² km2 m³ m3 qm cbm kWh MWh GWh TWh kW MW Wh kJ MJ "
    "kcal hrs min sec ms km/h mph Std Std. Tage days day years year yrs Jahre Jahr Monate months weeks mmHg mmol/l "
    "mg/dl g/dl g/l bpm ppm pcs Stk Stk. Stück lbs lb oz ft mi k€ T€ Mio Mio. Mrd Mrd. Tsd Tsd. Mio.€ Pkt points"
)
_LETTERS: Final = "g t l h s m d W V A"
"""Units of one letter, which are only units behind a blank: 12A and 4d are codes."""


def _one_of(words: str) -> str:
    escaped = [word.replace(".", r"\.").replace("$", r"\$") for word in words.split()]
    return "|".join(sorted(escaped, key=len, reverse=True))


_BEFORE: Final = f"(?:{_one_of(f'{_SIGNS} {_CODES}')})"
_AFTER: Final = (
    rf"[{_BLANKS}]*(?:(?:Mio\.?|Mrd\.?|Tsd\.?)[{_BLANKS}]*)?(?:{_one_of(f'{_SIGNS} {_CODES} {_UNITS}')})"
    rf"|[{_BLANKS}]+(?:{_one_of(_LETTERS)})"
)
_QUANTITY: Final = rf"^({_BEFORE}[{_BLANKS}]*)?([+-]?[0-9.,](?:[0-9.,'\x{{2019}}{_BLANKS}]*[0-9.,])?)({_AFTER})?$"
_GROUPS: Final = {sign: rf"[{mark} '\x{{a0}}\x{{202f}}\x{{2019}}]" for sign, mark in ((".", ","), (",", "."))}
"""What stands between thousands where decimals have this sign."""

_GROUPED: Final = (
    r"^[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:\.[0-9]{3})+(?:,[0-9]*)?"
    r"|(?:[ '\x{a0}\x{202f}\x{2019}][0-9]{3})+(?:[.,][0-9]*)?)$"
)
_BOTH_MARKS: Final = r"[0-9],[0-9]{3}\.|[0-9]\.[0-9]{3},"
_UNGROUPED: Final = r"^[+-]?(?:[0-9]{1,3}(?:[.,][0-9]*)?|[.,][0-9]+)$"


@dataclass(frozen=True, repr=False)
class Quantities:
    """The numbers of a column as plain text, and what stands before and after them in most of its cells."""

    text: pl.Series
    before: str = ""
    after: str = ""


def without_unit(text: pl.Series) -> Quantities | None:
    """A column of text without the unit that all its cells have; None if they share none."""
    for part in (text.head(SAMPLE), text):
        cells = _cells(part)
        found = cells.str.extract_groups(_QUANTITY).struct.unnest()
        if cells.is_empty() or found[:, 1].has_nulls():
            return None
        affixes = found[:, [0, 2]].fill_null("")
        units = affixes.select(pl.all().str.strip_chars(" \t\u00a0\u202f")).unique()
        if units.height != 1 or not any(units.row(0)) or all(units.row(0)):
            return None
    usual = [str(affixes[:, place].mode().sort()[0]) for place in (0, 1)]
    numbers = text.str.strip_chars(" \t").str.extract(_QUANTITY, 2)
    return Quantities(pl.select(pl.coalesce(numbers, text).alias(text.name)).to_series(), *usual)


def ungrouped(text: pl.Series, decimal: str) -> pl.Series | None:
    """A column of text without thousands separators; None if they are not where they belong by this decimal sign."""
    group = _GROUPS[decimal]
    form = rf"^[+-]?(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]*)(?:[{decimal}][0-9]*)?$"
    if not _cells(text).str.contains(form).all():
        return None
    cells = text.str.strip_chars(" \t")
    plain = pl.when(cells.is_in(list(MISSING))).then(cells).otherwise(cells.str.replace_all(group, ""))
    return pl.select(plain.alias(text.name)).to_series()


def has_thousands(text: pl.Series) -> bool:
    """Whether a column is amounts with thousands separators.

    Codes and telephone numbers may look the same, but all alike; amounts differ in length, or have decimals too.
    """
    return _grouped_cells(text.head(SAMPLE)) is not False and bool(_grouped_cells(text))


def _grouped_cells(text: pl.Series) -> bool | None:
    """Whether cells are amounts with such separators; None where they do not settle it."""
    cells = _cells(text)
    grouped = cells.str.contains(_GROUPED)
    if not (grouped | cells.str.contains(_UNGROUPED)).all():
        return False
    if not grouped.any():
        return None
    return True if not grouped.all() or bool(cells.str.contains(_BOTH_MARKS).any()) else None


def _cells(text: pl.Series) -> pl.Series:
    """The cells that are not missing, without blanks around."""
    cells = text.drop_nulls().str.strip_chars(" \t")
    return cells.filter(~cells.is_in(list(MISSING)))
