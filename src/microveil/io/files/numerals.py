"""Which columns of text are numbers, and which sign their decimals have.

A column becomes numbers only when all of it can. The text is kept: '1.50', 'NA' and '007' are decisions of the author
of the file, and a released file has to show them again. The sign of decimals is one for the whole file; where two
readings are possible, neither is taken: '1,234' is a thousand to one person and a bit more than one to another.

Numbers may have a unit that all cells of a column share, and thousands apart. Only units that are known are taken for
one: a code such as K50 or 12A is none, however many cells share its letter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from microveil.core.arrays import FIRST_ROWS
from microveil.core.errors import DataError
from microveil.core.late import pl
from microveil.io.dictionary import codes_of
from microveil.io.files.formats import MISSING, same_cells
from microveil.io.frames.number_types import LARGEST_WHOLE
from microveil.storage.atomic import shown

AGREED, MOST_DECIMALS = 0.95, 6
"""Share of cells with as many decimals from which on a column is one of so many; and the most that are filled up."""

DECIMALS: Final = {"point": ".", "dot": ".", "comma": ","}
"""Words for the signs of decimals."""

SPACES: Final = " \t"
# '007' and '01.11' are codes (a post code, an activity) that a number would cut short.
_LEADING_ZERO: Final = r"^[ \t]*[+-]?0[0-9]"
_LONG: Final = r"^\s*[+-]?[0-9]{17}"
_POINT: Final = r"[0-9]\.|\.[0-9]"
_EITHER: Final = {mark: rf"^[ \t]*[+-]?[1-9][0-9]{{0,2}}[{mark}][0-9]{{3}}[ \t]*$" for mark in ".,"}
_PLAIN: Final = r"^[+-]?[0-9]*(?:[.,][0-9]*)?$"
_DECIMALS: Final = r"[.,]([0-9]*)$"


@dataclass(frozen=True, repr=False)
class Original:
    """A column of numbers as it was read, and the text it was read from (null where the cell was empty).

    `plain` is the text without units and thousands separators, where there were any; `before` and `after` is the unit.
    """

    text: pl.Series
    numbers: pl.Series
    plain: pl.Series | None = None
    before: str = ""
    after: str = ""

    @property
    def unit(self) -> str:
        """The unit that all cells have."""
        return (self.before or self.after).strip()

    @property
    def finding(self) -> str:
        """A sentence on a column that has units or thousands separators; empty for any other."""
        if self.plain is None:
            return ""
        name = self.numbers.name
        if self.unit:
            return f"column '{name}' has the unit {self.unit} in its cells"
        return f"column '{name}' has thousands separators, which are not written again"


def find_numbers(
    columns: Sequence[pl.Series], path: Path, *, separator: str, decimal: str | None
) -> tuple[dict[str, Original], str]:
    """Those of the `columns` of text that are numbers, and their decimal sign.

    `decimal` gives the sign, or None if it is to be found; the `separator` of the file's cells tells which to doubt.
    """
    found = _read_with(decimal or ".", columns)
    others = [column for column in columns if column.name not in found]
    units = {column.name: bare for column in others if (bare := without_unit(column)) is not None}
    texts = {column.name: units[column.name][0] if column.name in units else column for column in columns}
    found |= _read_with(decimal or ".", [texts[name] for name in units])
    rest = [text for name, text in texts.items() if name not in found]
    pointed = [texts[name] for name in found if found[name].dtype.is_float()]
    with_commas = _read_with(",", rest) if decimal is None else {}
    settled = any(column.str.contains(_POINT).any() for column in pointed)
    if with_commas:
        _check_one_sign(pointed, next(iter(with_commas)), path)
        _check_marks([column for column in rest if column.name in with_commas], ",", path)
    elif decimal is None and separator == ";":  # which is common where decimals have commas, and thousands points
        _check_marks(pointed, ".", path)
    signs = [decimal] if decimal else [","] if with_commas else ["."] if settled else [".", ","]
    numbers = {**found, **with_commas}
    grouped, sign = _with_thousands([text for text in rest if text.name not in with_commas], signs, path)
    numbers |= _read_with(sign, grouped.values())
    plain = {name: texts[name] for name in units} | grouped
    originals = {
        column.name: Original(
            column,
            numbers[column.name],
            plain.get(column.name),
            *(units[column.name][1:] if column.name in units else ()),
        )
        for column in columns
        if column.name in numbers
    }
    return originals, sign


def _check_one_sign(pointed: Sequence[pl.Series], with_comma: str, path: Path) -> None:
    """Refuse a file that has decimals of both signs."""
    mixed = next((column.name for column in pointed if column.str.contains(_POINT).any()), None)
    if mixed is not None:
        problem = f"{shown(path)} has decimal points in column {shown(mixed)} and commas in column {shown(with_comma)}"
        raise DataError(problem, "say which it is with --decimal point or --decimal comma; the other stays text")


def to_numbers(text: pl.Series, decimal: str = ".") -> pl.Series | None:
    """A column of text as numbers, missing cells null; nothing when a cell is no number.

    A column without a single value counts as numbers too: passing it on as text would hide that it is empty.
    """
    # A sample rules out most columns of text, and whole numbers where there are fractions.
    sample = _parsed(text.head(FIRST_ROWS), (pl.Int64, pl.Float64), decimal)
    if sample is None:
        return None
    kinds = (pl.Int64, pl.Float64) if sample.dtype == pl.Int64 else (pl.Float64,)
    return _parsed(text, kinds, decimal)


def written_as(column: pl.Series, original: Original, decimal: str = ".") -> pl.Series:
    """The cells of a column of numbers, as text where they cannot be left to polars.

    An unchanged column is its original text. In a changed one the missing cells are, and special codes in their
    places; cells that were not missing before look as most of the column's missing cells do. How any other cell looks
    follows from its value alone: a text that only unchanged cells have would tell which ones are true.
    """
    was = original.numbers
    if same_cells(column, was):
        return original.text
    if column.dtype.is_float():
        column = column.fill_nan(None)
    same_rows = len(column) == len(was)
    codes = codes_of(was.cast(pl.Float64).to_numpy()) if same_rows else ()  # their cells stay as they are
    written = pad_decimals(column, least_decimals(original.text if original.plain is None else original.plain), decimal)
    if original.unit:
        numbers = written.cast(pl.String)
        written = pl.select((pl.lit(original.before) + numbers + pl.lit(original.after)).alias(column.name)).to_series()
    if column.null_count() == 0 and not codes:
        return written
    missing = pl.lit(_usual(original.text.filter(was.is_null())), pl.String)
    cells = pl.lit(written.cast(pl.String))
    if same_rows:
        missing = pl.when(was.is_null()).then(original.text).otherwise(missing)
        coded = was.cast(pl.Float64).is_in(list(codes)) & (column == was)
        cells = pl.when(coded).then(original.text).otherwise(cells)
    return pl.select(pl.coalesce(cells, missing).alias(column.name)).to_series()


def least_decimals(text: pl.Series) -> int:
    """The decimals that the cells of a column have at least: 2 for 12.50, 0 where whole numbers have no sign.

    A few cells with fewer, such as codes, do not count where all others agree.
    """
    tried = text.drop_nulls().head(FIRST_ROWS).str.strip_chars(SPACES)
    plain = tried.filter(tried.str.contains(_PLAIN))
    lengths = plain.str.extract(_DECIMALS).fill_null("").str.len_chars()
    if lengths.is_empty():
        return 1
    found: list[int] = lengths.to_list()
    usual: int = max(lengths.mode().to_list())
    least = usual if found.count(usual) >= AGREED * len(found) else min(found)
    return min(least, MOST_DECIMALS)


def pad_decimals(column: pl.Series, least: int, decimal: str) -> pl.Series:
    """Numbers with so many decimals at least: as text, where polars would write others."""
    if not column.dtype.is_float() or (least == 1 and decimal == "."):
        return column
    cells = with_decimals(column, decimal).cast(pl.String)
    if least == 0:
        return cells.str.replace(rf"[{decimal}]0$", "")
    padded = pl.lit(cells)
    for length in range(1, least):
        short = cells.str.contains(rf"^-?[0-9]+[{decimal}][0-9]{{{length}}}$")
        padded = pl.when(short).then(pl.lit(cells) + "0" * (least - length)).otherwise(padded)
    return pl.select(padded.alias(cells.name)).to_series()


def with_decimals(column: pl.Series, decimal: str) -> pl.Series:
    """A column of fractions as text, where its decimals have commas; any other as it is."""
    if decimal == "." or not (column.dtype.is_float() or column.dtype.is_decimal()):
        return column
    return column.cast(pl.String).str.replace(".", decimal, literal=True)


def _read_with(decimal: str, columns: Iterable[pl.Series]) -> dict[str, pl.Series]:
    """The columns that are numbers with this sign of decimals."""
    with ThreadPoolExecutor() as pool:  # polars works on one column with one thread
        parsed = list(pool.map(lambda column: to_numbers(column, decimal), columns))
    return {numbers.name: numbers for numbers in parsed if numbers is not None}


def _parsed(text: pl.Series, kinds: tuple[type[pl.Int64 | pl.Float64], ...], decimal: str) -> pl.Series | None:
    """The column as the first of `kinds` that takes all its cells."""
    if text.str.contains(_LEADING_ZERO).any():
        return None
    if decimal == ",":
        if text.str.contains(_POINT).any():
            return None
        text = text.str.replace(",", ".", literal=True)  # the first: two in a cell are no decimals
    for kind in kinds:
        numbers = text.cast(kind, strict=False).fill_nan(None)  # polars takes 'NAN' and '-nan' too; we do not
        if kind == pl.Float64 and _loses_digits(text, numbers):
            return None
        left = text.filter(numbers.is_null() & text.is_not_null()).str.strip_chars(SPACES)
        padded = left.filter(~left.is_in(list(MISSING)))
        if padded.is_empty():
            return numbers
        if padded.cast(kind, strict=False).fill_nan(None).null_count() == 0:
            return text.str.strip_chars(SPACES).cast(kind, strict=False).fill_nan(None)
    return None


def _loses_digits(text: pl.Series, numbers: pl.Series) -> bool:
    """Whether there are more digits before the point than a double has; as text, such a column is not lost."""
    largest = numbers.abs().max()
    return isinstance(largest, float) and largest > LARGEST_WHOLE and bool(text.str.contains(_LONG).any())


def _usual(tokens: pl.Series) -> str | None:
    """The commonest of a column's missing cells, the first in the alphabet of equals; none for empty cells."""
    counts = tokens.alias("token").value_counts(name="cells").sort("cells", "token", descending=[True, False])
    return None if counts.is_empty() else counts[0, "token"]


def _check_marks(columns: Iterable[pl.Series], mark: str, path: Path) -> None:
    """Refuse a file in which every such sign could separate thousands; one cell that cannot be so is enough."""
    doubtful = None
    for column in columns:
        for part in (column.head(FIRST_ROWS), column):
            marked = part.filter(part.str.contains(_POINT if mark == "." else ","))
            if not marked.str.contains(_EITHER[mark]).all():
                return
        if not marked.is_empty():
            doubtful = doubtful or column.name
    if doubtful is not None:
        problem = f"{shown(path)}: cells of column {shown(doubtful)} are like 1{mark}234, a thousand or a fraction"
        word = {".": "point", ",": "comma"}[mark]
        raise DataError(problem, f"say --decimal {word} if it is a fraction, else take out the thousands separators")


def _with_thousands(columns: Iterable[pl.Series], signs: Sequence[str], path: Path) -> tuple[dict[str, pl.Series], str]:
    """The plain text of columns of amounts with thousands separators, and the first of the decimal `signs` for it.

    As text they would be released as labels; so where no sign makes numbers of all of them, they are refused.
    """
    grouped = [column for column in columns if has_thousands(column)]
    for sign in signs:
        plain = [text for column in grouped if (text := ungrouped(column, sign)) is not None]
        if len(plain) == len(grouped) == len(_read_with(sign, plain)):
            return {text.name: text for text in plain}, sign
    problem = f"{shown(path)}: column {shown(grouped[0].name)} has thousands separators that contradict other signs"
    raise DataError(problem, "say which sign decimals have with --decimal, or write 1234567.5, not 1,234,567.5")


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
"""What separates thousands where decimals have this sign."""

_GROUPED: Final = (
    r"^[+-]?[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+(?:\.[0-9]*)?|(?:\.[0-9]{3})+(?:,[0-9]*)?"
    r"|(?:[ '\x{a0}\x{202f}\x{2019}][0-9]{3})+(?:[.,][0-9]*)?)$"
)
_BOTH_MARKS: Final = r"[0-9],[0-9]{3}\.|[0-9]\.[0-9]{3},"
_UNGROUPED: Final = r"^[+-]?(?:[0-9]{1,3}(?:[.,][0-9]*)?|[.,][0-9]+)$"


def without_unit(text: pl.Series) -> tuple[pl.Series, str, str] | None:
    """A column of text without the unit that all its cells have, and what is before and after most of its numbers.

    None if the cells share no unit.
    """
    for part in (text.head(FIRST_ROWS), text):
        cells = _cells(part)
        found = cells.str.extract_groups(_QUANTITY).struct.unnest()
        if cells.is_empty() or found[:, 1].has_nulls():
            return None
        affixes = found[:, [0, 2]].fill_null("")
        units = affixes.select(pl.all().str.strip_chars(" \t\u00a0\u202f")).unique()
        if units.height != 1 or not any(units.row(0)) or all(units.row(0)):
            return None
    before, after = (str(affixes[:, place].mode().sort()[0]) for place in (0, 1))
    numbers = text.str.strip_chars(" \t").str.extract(_QUANTITY, 2)
    return pl.select(pl.coalesce(numbers, text).alias(text.name)).to_series(), before, after


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
    return _grouped_cells(text.head(FIRST_ROWS)) is not False and bool(_grouped_cells(text))


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
