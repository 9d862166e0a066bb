"""How the codes of a dimension add up: the total over all, sums over some, and the codes that nothing lies below.

Hierarchies come in the forms that people have them in. Each is brought to one: the code above each code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.errors import DataError, FileError, ParameterError, check_column
from microveil.io.frames.dataframes import Frame, open_frame

Numbers = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Hierarchy:
    """The codes of a dimension, each before those below it, and the number of the one above each (of the total: -1)."""

    name: str
    codes: tuple[str, ...]
    above: Numbers

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each code."""
        return {code: place for place, code in enumerate(self.codes)}

    @cached_property
    def leaves(self) -> Numbers:
        """Numbers of the codes that nothing lies below: those of inner cells."""
        inner = np.ones(len(self.codes), dtype=bool)
        inner[self.above[self.above >= 0]] = False
        return np.flatnonzero(inner)

    @cached_property
    def leaf_of(self) -> Numbers:
        """For each code its place among the leaves, -1 for sums."""
        places = np.full(len(self.codes), -1, dtype=np.int64)
        places[self.leaves] = np.arange(self.leaves.size)
        return places

    @cached_property
    def lines(self) -> Numbers:
        """For each leaf the codes it is part of, from itself up to the total; -1 where the line is at its end."""
        levels = [self.leaves]
        while (levels[-1] >= 0).any():
            levels.append(np.where(levels[-1] >= 0, self.above[levels[-1]], -1))
        return np.stack(levels[:-1], axis=1)


def from_parents(name: str, above: Mapping[str, str], total: str) -> Hierarchy:
    """The hierarchy in which each code lies below another; those that nothing lies above are put below the total."""
    if not above:
        raise DataError(f"dimension '{name}' has no codes", "give a table with at least one row")
    parents = dict(above)
    tops = [code for code in dict.fromkeys(parents.values()) if code not in parents]
    root = tops[0] if len(tops) == 1 else total
    if root in parents:
        raise DataError(
            f"dimension '{name}': '{root}' is the name of its total and of a code below another",
            "rename one of them, or choose another name for totals (total=...)",
        )
    parents |= {code: root for code in tops if code != root}
    below: dict[str, list[str]] = {}
    for code, parent in parents.items():
        below.setdefault(parent, []).append(code)
    codes, stack = [], [root]
    while stack:  # each code before those below it, in the order in which they were given
        codes.append(stack.pop())
        stack.extend(reversed(below.get(codes[-1], [])))
    if len(codes) <= len(parents):
        lost = len(parents) + 1 - len(codes)
        raise DataError(f"dimension '{name}': {lost} codes lie below themselves", "a hierarchy must not go in circles")
    numbers = {code: place for place, code in enumerate(codes)}
    return Hierarchy(name, tuple(codes), np.array([-1, *(numbers[parents[code]] for code in codes[1:])], np.int64))


FORMS = (
    "give a nested dictionary of codes, a dictionary from each code to the one above it, a frame of two columns (code "
    "and the one above), names of columns that hold the coarser codes, lengths of the leading parts of codes, or the "
    "path of a .hrc file"
)


def hierarchy_of(name: str, given: Any, frame: Frame, total: str) -> Hierarchy:
    """The hierarchy of the dimension `name`, a column of `frame`, as `given`; without it, a total over all codes."""
    return given if isinstance(given, Hierarchy) else from_parents(name, _above(name, given, frame, total), total)


def _above(name: str, given: Any, frame: Frame, total: str) -> dict[str, str]:
    """The code above each code of the dimension `name`, `given` in any of the forms (see `hierarchy_of`)."""
    if given is None:
        return _by_lengths((), codes_of(frame, name)[0], total)
    if isinstance(given, str | Path):
        return _of_tree(name, {total: read_hrc(given)}, total)
    if isinstance(given, Mapping):
        if given and all(isinstance(parent, str) for parent in given.values()):
            return {str(code): parent for code, parent in given.items()}
        return _of_tree(name, given, total)
    if isinstance(given, Sequence) and given and all(isinstance(level, str) for level in given):
        for column in given:
            check_column("hierarchies", column, frame.names)
        return _by_columns(name, frame, given, total)
    if isinstance(given, Sequence) and given and all(type(level) is int for level in given):
        return _by_lengths(given, codes_of(frame, name)[0], total)
    if isinstance(given, Sequence):
        raise ParameterError(f"hierarchies: that of '{name}' cannot be read", FORMS)
    return _by_pairs(name, open_frame(given))


def _of_tree(name: str, tree: Mapping[Any, Any], total: str) -> dict[str, str]:
    """Of nested dictionaries, whose innermost values are lists of codes, or empty."""
    above: dict[str, str] = {}

    def enter(branch: Any, parent: str) -> None:
        for code in [branch] if isinstance(branch, str) else branch or ():
            text = str(code)
            if above.setdefault(text, parent) != parent or text == parent:
                raise DataError(f"dimension '{name}': code '{text}' lies below two others", "let it lie below one")
            if isinstance(branch, Mapping):
                enter(branch[code], text)

    if len(tree) == 1:  # a single code above all others is the total itself
        enter(next(iter(tree.values())), str(next(iter(tree))))
    else:
        enter(tree, total)
    return above


def _by_columns(name: str, frame: Frame, columns: Sequence[str], total: str) -> dict[str, str]:
    """Of `columns` that nest, given from the coarsest on or in any order; the dimension `name` is the finest.

    All are columns of the `frame`; the coarsest codes lie below the `total`.
    """
    coded = {column: codes_of(frame, column) for column in [*columns, name]}
    order = sorted(columns, key=lambda column: (len(coded[column][0]), columns.index(column)))
    above = {text: total for text in coded[order[0]][0] if text != total}
    for upper, lower in pairwise([*order, name]):
        (upper_texts, upper_rows), (texts, rows) = coded[upper], coded[lower]
        pairs = np.unique(np.stack([rows, upper_rows], axis=1), axis=0)
        twice = np.flatnonzero(np.bincount(pairs[:, 0]) > 1)
        if twice.size:
            raise DataError(
                f"columns '{lower}' and '{upper}' do not nest: {twice.size} codes lie below two others",
                "give each code one that it lies below, or make them two dimensions",
            )
        alone = np.bincount(pairs[:, 1]) == 1
        for low, high in pairs.tolist():
            text, parent = texts[low], upper_texts[high]
            if text == parent and (alone[high] or text == total):  # the only part of a sum: the same cell
                continue
            if text in above or text == parent:
                raise DataError(
                    f"a code of column '{lower}' occurs in a coarser one, too",
                    "give the codes of the levels different names",
                )
            above[text] = parent
    return above


def _by_lengths(lengths: Iterable[int], codes: Sequence[str], total: str) -> dict[str, str]:
    """Of codes that begin with those above them: lengths 1 and 3 put C and C10 above C1089."""
    above: dict[str, str] = {}
    for code in (code for code in codes if code != total):
        parts = [code[:length] for length in sorted(set(lengths)) if 0 < length < len(code)]
        above |= dict(zip([*parts, code], [total, *parts], strict=True))
    return above


def _by_pairs(name: str, pairs: Frame) -> dict[str, str]:
    """Of a frame with two columns: codes, and those above them."""
    if len(pairs.names) != 2:
        raise ParameterError(f"hierarchies: the frame of '{name}' has {len(pairs.names)} columns", FORMS)
    (lower, low), (upper, high) = (codes_of(pairs, column) for column in pairs.names)
    above: dict[str, str] = {}
    for child, parent in zip(low.tolist(), high.tolist(), strict=True):
        if above.setdefault(lower[child], upper[parent]) != upper[parent]:
            raise DataError(f"dimension '{name}': a code lies below two others", "let each lie below one")
    return above


def codes_of(frame: Frame, name: str) -> tuple[list[str], Numbers]:
    """The codes of a column as text, in order, and for each row the place of its code."""
    gaps = frame.missing(name)
    if gaps:
        raise DataError(f"dimension '{name}' has {gaps} rows without a code", "give unknown codes a code of their own")
    if frame.is_numeric(name):
        values, rows = np.unique(frame.numbers(name), return_inverse=True)
        return [str(int(code)) if code == int(code) else repr(float(code)) for code in values], rows.ravel()
    rows = frame.labels(name)
    return frame.words(name, np.unique(rows, return_index=True)[1]), rows.astype(np.int64)


LEAD = "@"
"""Written before a code once for each code above it, below the total."""


def read_hrc(path: str | Path, lead: str = LEAD) -> dict[str, Any]:
    """The codes of a .hrc file as nested dictionaries; the total is not in the file."""
    tree: dict[str, Any] = {}
    line_to = [tree]  # the dictionaries from the total down to the last code
    for number, line in enumerate(text_lines(path), start=1):
        code = line.rstrip().lstrip(lead)
        depth = (len(line.rstrip()) - len(code)) // len(lead)
        if not code.strip():
            continue
        if depth >= len(line_to):
            raise DataError(
                f"{Path(path).name}, line {number}: no code {depth - len(line_to) + 1} levels up",
                f"a code has at most one '{lead}' more than the line before it",
            )
        del line_to[depth + 1 :]
        line_to.append(line_to[-1].setdefault(code.strip(), {}))
    if not tree:
        raise DataError(
            f"{Path(path).name} has no codes", f"write a code in each line, after a '{lead}' for each level"
        )
    return tree


def text_lines(path: str | Path) -> list[str]:
    """The lines of a text file."""
    try:
        return Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        reason = "cannot be read as text"
    raise FileError(f"{Path(path).name} {reason}", "check that it is there, may be read, and is saved as UTF-8")
