"""Which columns of two files are labels or in clear, and their cells as numbers of levels that both files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.keys import MISSING, Codes
from microveil.intake.intake import dictionary_for
from microveil.intake.kinds import LABELS, LEFT_OUT, TIMES, ColumnKind, declared_kinds, find_kinds
from microveil.intake.roles import named
from microveil.intake.sources import bad_weight
from microveil.io.frames.dataframes import Frame, NumpyFrame
from microveil.io.frames.times import TimeColumn, in_one_unit
from microveil.measures.labels import LabelPair
from microveil.options import Assess


@dataclass(frozen=True, repr=False)
class ColumnKinds:
    """Two (or three) files whose dates count as numbers, and the kinds of the columns of the first."""

    frames: list[Frame] = field(default_factory=list)
    """The original, the release and, if there is one, the holdout; nothing of files that are not in memory."""

    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    """Columns of labels that both files have."""

    @property
    def no_numbers(self) -> set[str]:
        """Columns that are not compared as numbers, whatever they hold: labels, and what names records or units."""
        named_so = {name for name, found in self.kinds.items() if found.kind in (*LEFT_OUT, "unit")}
        return {*self.labels, *named_so}

    def confidential(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Columns that somebody named: those of numbers, and those of labels; numbers that may be codes are numbers."""
        own = [n for n in names if n in self.labels]
        labels = [n for n in own if not (self.frames[0].is_numeric(n) and self.kinds[n].doubtful)]
        return tuple(n for n in names if n not in labels), tuple(labels)

    def in_clear(self, same: Sequence[str], moved: Sequence[str]) -> list[str]:
        """Columns that vary and are the same in both files; of some it is known that they are the `same` or `moved`."""
        before, after = self.frames[:2]
        others = [name for name in before.names if name in after.names and name not in {*same, *moved}]
        found = {*same, *(name for name in others if before.count == after.count and self._unchanged(name))}
        return [name for name in before.names if name in found and _varies(before, name)]

    def regrouped(self) -> list[str]:
        """Columns of units whose rows are not together in the released file as they were: some went to another unit."""
        before, after = self.frames[:2]
        units = [n for n, found in self.kinds.items() if found.kind == "unit" and n in after.names]
        if before.count != after.count:
            return []
        pairs = {name: np.stack([before.groups(name), after.groups(name)]) for name in units}
        return [name for name, both in pairs.items() if np.unique(both, axis=1).shape[1] > np.unique(both[0]).size]

    def _unchanged(self, name: str) -> bool:
        before, after = self.frames[:2]
        if before.is_numeric(name) and after.is_numeric(name):
            return np.array_equal(before.numbers(name), after.numbers(name), equal_nan=True)
        if before.is_numeric(name) or after.is_numeric(name):
            return False
        old, new = _coded_texts(self.frames[:2], name)[0]
        return np.array_equal(old, new)


def kinds_of_columns(frames: Sequence[Frame], asked: Assess, known: Mapping[str, str] | None) -> ColumnKinds:
    """The kinds of the columns of the first file, and which are labels in both; arrays have none.

    What is `known` (of a release) is not looked for.
    """
    if isinstance(frames[0], NumpyFrame) or len({type(frame) for frame in frames}) > 1:
        return ColumnKinds(list(frames))
    original = frames[0]
    dictionary, _ = dictionary_for(asked.rules, original.names)
    declared = {name: entry.kind for name, entry in dictionary.columns.items() if entry.kind is not None}
    given = declared_kinds(asked.kinds)
    # What a release says of its columns was checked when it was made.
    found = {name: ColumnKind(kind) for name, kind in (known or {}).items() if name not in given}  # type: ignore[arg-type]
    if not {*original.names} <= found.keys():
        found = find_kinds(original, declared | given) | {n: of for n, of in found.items() if n in original.names}
    shared = [name for name in original.names if name in frames[1].names]
    times = [name for name in shared if found[name].kind in TIMES and all(name in frame.names for frame in frames)]
    labels = tuple(name for name in shared if found[name].kind in LABELS and _are_labels(frames[:2], name))
    return ColumnKinds(with_common_times(frames, times), found, labels)


def with_common_times(frames: Sequence[Frame], names: Sequence[str]) -> list[Frame]:
    """The files with those of the columns as numbers that are dates, or times, in each, in one unit."""
    times: list[dict[str, TimeColumn]] = [{} for _ in frames]
    for name in names:
        columns = [column for frame in frames if (column := frame.time_column(name)) is not None]
        if len(columns) == len(frames) and len({column.kind == "time" for column in columns}) == 1:
            for of, column in zip(times, in_one_unit(columns), strict=True):
                of[name] = column
    return [frame.with_time_columns(of) for frame, of in zip(frames, times, strict=True)]


def _are_labels(frames: Sequence[Frame], name: str) -> bool:
    """Text in every file; or numbers that are the same few in every file, which noise would have made others."""
    numeric = {frame.is_numeric(name) for frame in frames}
    if numeric != {True}:
        return numeric == {False}
    first, *others = (_present(frame.numbers(name)) for frame in frames)
    levels = np.unique(first)
    return all(np.isin(other, levels).all() for other in others)


def _varies(frame: Frame, name: str) -> bool:
    if frame.is_numeric(name):
        values = _present(frame.numbers(name))
        return bool(values.size and (values.size < frame.count or values.min() < values.max()))
    return int(frame.labels(name).max(initial=0)) > 0


def _present(values: Array) -> Array:
    there: Array = values[~np.isnan(values)]
    return there


def pair_of_labels(
    columns: ColumnKinds, labels: Sequence[str], in_clear: Sequence[str], sensitive: Sequence[str] | None, asked: Assess
) -> LabelPair | None:
    """The columns of labels of both files, those in clear of any kind, and keys that were named; None without any.

    Args:
        columns: the files.
        labels: columns of labels that are compared.
        in_clear: columns that are the same in both files.
        sensitive: columns of labels that are to be hidden, if not all.
        asked: `keys` and `weight` are among the options.
    """
    original = columns.frames[0]
    known = dict.fromkeys(original.names, True)
    keys = named(known, "keys", asked.keys)
    chosen = {*labels, *in_clear, *keys}
    names = [name for name in original.names if name in chosen]
    if not names:
        return None
    coded = [_coded(columns, name, unchanged=name in in_clear and name not in labels) for name in names]
    cells = [np.column_stack(of) for of in zip(*(codes for codes, _ in coded), strict=True)]
    return LabelPair(
        names=tuple(names),
        kinds=tuple(columns.kinds[name].kind if columns.kinds else "amount" for name in names),
        sizes=tuple(len(levels) for _, levels in coded),
        original=cells[0],
        released=cells[1],
        in_clear=tuple(name in in_clear for name in names),
        keys=tuple(j for j, name in enumerate(names) if not keys or name in keys),
        sensitive=None if sensitive is None else tuple(names.index(name) for name in sensitive),
        **_weights(columns.frames[0], columns.frames[1], asked),
        holdout=cells[2] if len(cells) > 2 else None,
        level_names=tuple(levels for _, levels in coded),
    )


def _weights(original: Frame, released: Frame, asked: Assess) -> dict[str, Array | None]:
    """The survey weights of both files; those of the original stand for a release without them, of the same rows."""
    chosen = named(dict.fromkeys(original.names, True), "weight", asked.weight)
    if not chosen:
        return {}
    if len(chosen) > 1 or not original.is_numeric(chosen[0]):
        raise ParameterError("weight: takes one column of numbers", "name the column that holds the survey weights")
    weights = original.numbers(chosen[0])
    if not (weights > 0).all() or not np.isfinite(weights).all():
        raise bad_weight(chosen[0])
    there = chosen[0] in released.names and released.is_numeric(chosen[0])
    new = released.numbers(chosen[0]) if there else weights if released.count == original.count else None
    return {"weights": weights, "released_weights": None if new is None or not (new > 0).all() else new}


def _coded(columns: ColumnKinds, name: str, *, unchanged: bool) -> tuple[list[Codes], tuple[str, ...]]:
    """The numbers of the levels of a column in each file, and what these are called.

    Of an `unchanged` column those of the original will do: its numbers may be longer than a double can hold.
    """
    frames = columns.frames
    if unchanged:
        codes = frames[0].labels(name).astype(np.int64)
        missing = frames[0].missing(name) > 0
        levels = int(codes.max(initial=-1)) + 1 - missing
        codes[codes == levels] = MISSING
        others = [np.full(frame.count, MISSING, dtype=np.int64) for frame in frames[2:]]
        return [codes, codes, *others], ("",) * levels
    if all(frame.is_numeric(name) for frame in frames):
        values = [frame.numbers(name) for frame in frames]
        found = np.unique(np.concatenate([_present(of) for of in values]))
        numbers = [np.where(np.isnan(of), MISSING, np.searchsorted(found, of)).astype(np.int64) for of in values]
        return numbers, tuple(f"{level:g}" for level in found)
    return _coded_texts(frames, name)


def _coded_texts(frames: Sequence[Frame], name: str) -> tuple[list[Codes], tuple[str, ...]]:
    """The same of text, in its own order or else in that of the alphabet."""
    own = [frame.labels(name) for frame in frames]
    texts: list[list[str]] = []
    for frame, codes in zip(frames, own, strict=True):
        first = np.unique(codes, return_index=True)[1]
        texts.append(frame.words(name, first[: first.size - (frame.missing(name) > 0)]))
    order = dict.fromkeys(level for frame in frames for level in frame.level_order(name))
    found = {level for of in texts for level in of}
    levels = [*(level for level in order if level in found), *sorted(found - order.keys())]
    place = {level: number for number, level in enumerate(levels)}
    numbers = [
        np.array([*(place[level] for level in of), MISSING], dtype=np.int64)[codes]
        for of, codes in zip(texts, own, strict=True)
    ]
    return numbers, tuple(levels)
