"""Throw odd files at the readers of CSV and of dictionaries: no crash, no hang, no leak. Run by `make fuzz`.

Whatever is in a file, reading it gives a table or one of our errors, within a few seconds, and no error holds a value
of the file. What can be read is written and read again, and must be the same. FUZZ_SECONDS says for how long (600).
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import microveil as mv
from microveil.core.errors import MicroveilError
from microveil.io.files.formula_injection import formulas_kept
from microveil.io.tables import read_table, write_table

SENTINEL = "86420.97531"
DEADLINE = 20
"""Seconds that a file of a few hundred bytes may take on a busy machine."""

ROUND = 300
"""Files of a kind before the other kind has its turn."""

outcomes: Counter[str] = Counter()


@contextmanager
def in_time() -> Iterator[None]:
    """A hang in Python is an error of its own; one in a library ends the program with the place where it hung."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"a file took more than {DEADLINE} seconds")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(DEADLINE)
    faulthandler.dump_traceback_later(3 * DEADLINE, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def check_silent(error: BaseException) -> None:
    """No message, nor one that a traceback would show with it, holds the value."""
    seen: BaseException | None = error
    while seen is not None:
        assert SENTINEL not in str(seen), "a value is in an error"
        assert seen.__cause__ is None, "an error of a library is passed on"
        seen = None if seen.__suppress_context__ else seen.__context__


# CSV

CELLS = st.one_of(
    st.sampled_from(
        ["", " ", "NA", ".", "-", "nan", "inf", "-inf", "1e999", "1e-400", "007", "0x1F", "1_000", "1 000", "1.000,5",
         "1,5", "2.5", "-9", "999999", '""', '"', '"a""b"', "'", "=1+1", "@x", "\t", "\\", "\ufeff", "é", "\u2028",
         "TRUE", "2024-01-01", SENTINEL, f'"{SENTINEL}"', f"-{SENTINEL}", f"{SENTINEL}x", "9" * 400, "x" * 300]
    ),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(max_size=8),
)  # fmt: skip
SEPARATORS = st.sampled_from([",", ";", "\t", "|", " ", ":"])
ENDINGS = st.sampled_from(["\n", "\r\n", "\r", "\n\n", ""])
NAMES = st.one_of(
    st.sampled_from(["a", "b", "c", "a", "income (EUR)", "", " ", "1", "2019", "*", "^a$", "^.*$", '"q"', "x,y", "=z"]),
    st.text(max_size=6),
)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32"])


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    """Nearly a table, in some encoding, with some bytes changed; or any bytes at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=300))
    separator, ending, width = draw(SEPARATORS), draw(ENDINGS), draw(st.integers(1, 5))
    lines = [draw(st.lists(NAMES, min_size=width, max_size=width))]
    for _ in range(draw(st.integers(0, 8))):
        ragged = width + draw(st.sampled_from([0] * 12 + [-1, 1]))
        lines.append(draw(st.lists(CELLS, min_size=max(ragged, 0), max_size=max(ragged, 0))))
    text = ending.join(separator.join(line) for line in lines) + draw(ENDINGS)
    data = bytearray(text.encode(draw(ENCODINGS), errors="replace"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.sampled_from([len(data), len(data), len(data) // 2]))])


def read_and_write(folder: Path, data: bytes, extension: str) -> None:
    """Read; what can be read is described, written and read again."""
    path, copy = folder / f"in{extension}", folder / f"out{extension}"
    path.write_bytes(data)
    try:
        frame, form = read_table(path)
    except MicroveilError as error:
        outcomes["csv refused"] += 1
        # A name may be told, and the first line holds the names.
        if not any(SENTINEL.encode(code) in part for part in data.splitlines()[:2] for code in ("utf-8", "utf-16-le")):
            check_silent(error)
        return
    outcomes["csv read"] += 1
    assert frame.height > 0
    mv.describe(frame)
    with formulas_kept():
        write_table(frame, copy, form)
    again, _ = read_table(copy)
    assert again.equals(frame, null_equal=True), "what was written is not what was read"


# Dictionaries

KEYS = ["columns", "sums", "ratios", "orders", "special_codes", "minimum", "maximum", "step", "zeros", "unit", "total",
        "parts", "coefficients", "exceptions", "enforce", "ratio", "numerator", "denominator", "lower", "upper", "a",
        "b", "t", "r", "text", "nix"]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["a", "b", "t", "r", "text", "nix", 0, 1, -9, 0.5, 1e308, -1e308, True, False, float(SENTINEL)]),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
TREES = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
)
NUMBERS = st.sampled_from([0, 1, -9, 0.01, 3.7, 1e6, -1e300, float(SENTINEL)])
COLUMNS = st.sampled_from(["a", "b", "t", "r"])
PARTS = st.lists(COLUMNS, min_size=1, max_size=3)
COUNTS = st.sampled_from([0, 5, 200])
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "columns": st.dictionaries(
            COLUMNS,
            st.fixed_dictionaries(
                {},
                optional={
                    "minimum": NUMBERS,
                    "maximum": NUMBERS,
                    "step": NUMBERS,
                    "zeros": st.booleans(),
                    "special_codes": st.lists(NUMBERS, max_size=2),
                    "unit": st.just(SENTINEL),
                },
            ),
        ),
        "sums": st.lists(
            st.fixed_dictionaries(
                {"total": COLUMNS, "parts": PARTS},
                optional={
                    "exceptions": COUNTS,
                    "enforce": st.booleans(),
                    "coefficients": st.lists(NUMBERS, min_size=1, max_size=3),
                },
            ),
            max_size=2,
        ),
        "ratios": st.lists(
            st.fixed_dictionaries({"ratio": COLUMNS, "numerator": COLUMNS, "denominator": COLUMNS}), max_size=1
        ),
        "orders": st.lists(
            st.fixed_dictionaries(
                {"lower": COLUMNS, "upper": COLUMNS}, optional={"exceptions": COUNTS, "enforce": st.booleans()}
            ),
            max_size=3,
        ),
    },
)


@st.composite
def dictionaries(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file name and its bytes: a dictionary, a tree of anything, or text that is nearly one."""
    import tomli_w

    content = draw(st.one_of(ENTRIES, ENTRIES, st.dictionaries(st.sampled_from(KEYS), TREES, max_size=3)))
    name, text = ("d.toml", tomli_w.dumps(content)) if draw(st.booleans()) else ("d.json", json.dumps(content))
    data = bytearray(text.encode())
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return name, draw(st.binary(max_size=80)) if draw(st.integers(0, 19)) == 0 else bytes(data)


def table() -> pl.DataFrame:
    """Something for a dictionary to be about."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 90, (2, 60)).astype(float)
    ratio = np.divide(a, b, out=np.zeros(60), where=b > 0).round(2)
    return pl.DataFrame({"a": a, "b": b, "t": a + b, "r": ratio, "text": ["x", "y"] * 30})


TABLE = table()


def declare(folder: Path, name: str, data: bytes) -> None:
    """Protect a table under the dictionary."""
    path = folder / name
    path.write_bytes(data)
    try:
        release = mv.protect(TABLE, "noise", rules=path, seed=1)
    except MicroveilError as error:
        outcomes["dictionary refused"] += 1
        check_silent(error)
        return
    outcomes["dictionary used"] += 1
    assert release.rows == TABLE.height
    assert not any(SENTINEL in warning for warning in release.warnings)


# Both, by turns


def fuzz(seconds: float) -> None:
    """Turn and turn about, a whole turn each at least, until the time is over."""
    own = settings(
        max_examples=ROUND,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        database=None,
    )
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)

        @own
        @given(csv_files(), st.sampled_from([".csv", ".csv", ".tsv", ".txt"]))
        def tables(data: bytes, extension: str) -> None:
            if time.monotonic() < end or first:
                with in_time():
                    read_and_write(folder, data, extension)

        @own
        @given(dictionaries())
        def rules(file: tuple[str, bytes]) -> None:
            if time.monotonic() < end or first:
                with in_time():
                    declare(folder, *file)

        turns: tuple[Callable[[], None], ...] = (tables, rules)
        first = True
        while time.monotonic() < end or first:
            for turn in turns:
                turn()
            first = False


if __name__ == "__main__":
    warnings.simplefilter("error", RuntimeWarning)  # a number that went wrong is no better than a crash
    wanted = float(os.environ.get("FUZZ_SECONDS", "600"))
    try:
        fuzz(wanted)
    finally:
        print(", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())) or "nothing tried", flush=True)
    sys.exit(0)
