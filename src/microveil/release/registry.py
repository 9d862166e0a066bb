"""A private registry of releases: was nearly the same data released before?

Each release tells a little more of the same records, so a second one of nearly the same data is to be a decision. The
registry has no value of the data. Of every column, of neighbouring columns and of whole records it keeps the smallest
of the keyed hashes of what rows have in them (a bottom-k sketch: Cohen and Kaplan 2007), which are the same for the
same rows in whatever order, and tell what share of the rows of two files is the same. The key is random, and in the
registry: with the file a guess at a cell can be confirmed, so it is for its owner only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import FileError
from microveil.core.rng import ROWS_PER_BLOCK
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import Frame
from microveil.io.tables import open_blocks
from microveil.release.release import Release
from microveil.release.secret import PrivatePath, as_path, private_text
from microveil.storage.atomic import atomic_targets, shown

Hashes = NDArray[np.uint64]

VERSION, LARGEST = 1, 2**26
SMALLEST_KEPT = 256
"""Hashes of a sketch: shares of rows are known to about 3 in 100."""

TELLING = 0.5
"""Share of distinct values from which on a sketch tells rows apart: categories are the same in every file."""

NEARLY_SAME = 0.2
"""Share of rows that were in an earlier release from which on its owner is warned."""

MOST_COLUMNS = 60
"""Columns that have sketches of their own; whole records have one in any case."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # those of splitmix64


@dataclass(frozen=True, repr=False)
class Sketch:
    """The smallest hashes of what rows have, in ascending order, and about how many different ones there are."""

    hashes: Hashes

    @property
    def distinct(self) -> float:
        """How many different ones: counted where they are few, else from how close together the smallest are."""
        if self.hashes.size < SMALLEST_KEPT:
            return float(self.hashes.size)
        return (SMALLEST_KEPT - 1) / (float(self.hashes[-1]) / 2.0**64)

    def with_more(self, hashes: Hashes) -> Self:
        """The sketch of more rows."""
        return replace(self, hashes=np.unique(np.concatenate([self.hashes, hashes]))[:SMALLEST_KEPT])

    def share_in(self, other: Sketch) -> float:
        """The share of what is here that is there too."""
        both = np.union1d(self.hashes, other.hashes)[:SMALLEST_KEPT]
        common = np.isin(both, self.hashes) & np.isin(both, other.hashes)
        alike = float(np.mean(common)) if both.size else 0.0
        return min(alike * (self.distinct + other.distinct) / (1 + alike) / max(self.distinct, 1.0), 1.0)


NOTHING = Sketch(np.empty(0, dtype=np.uint64))


@dataclass(frozen=True, repr=False)
class RegisteredRelease:
    """A release: when, by which method, of how many rows, and the sketches by keyed names of what they are of."""

    date: str
    method: str
    rows: int
    sketches: Mapping[str, Sketch]

    def share_in(self, earlier: RegisteredRelease) -> float:
        """About the share of rows that are in an earlier one, by the middle of the sketches that both have."""
        telling = [name for name, sketch in self.sketches.items() if sketch.distinct >= TELLING * self.rows]
        shares = [self.sketches[name].share_in(earlier.sketches[name]) for name in telling if name in earlier.sketches]
        return float(np.median(shares)) if shares else 0.0


@dataclass(frozen=True, repr=False)
class Registry:
    """The releases of a registry file, the key of its hashes, and the release that is going to be in it.

    Without a path there is no registry, and nothing is kept.
    """

    path: Path | None = None
    key: bytes = b""
    releases: tuple[RegisteredRelease, ...] = ()
    new: RegisteredRelease | None = None

    @classmethod
    def of_table(cls, path: PrivatePath, method: str, frame: Frame) -> Registry:
        """The registry at a path, with a release of a table."""
        registry = cls._opened(path)
        if registry.path is None:
            return registry
        cells = {name: frame.numbers(name) for name in frame.names if frame.is_numeric(name)}
        return registry._with_release(method, [cells] if cells else [])

    @classmethod
    def of_file(cls, path: PrivatePath, method: str, source: Path, reading: ReadOptions | None = None) -> Registry:
        """The registry at a `path`, with a release of a file, the `source`: it is read in blocks as `reading` says."""
        registry = cls._opened(path)
        if registry.path is None:
            return registry
        with closing(open_blocks(source, reading)) as file:
            names = [name for name in file.names if file.is_numeric(name)]
            batches = file.batches(names, ROWS_PER_BLOCK) if names else iter(())
            pieces = ({name: file.numbers(name, batch.column(name))[0] for name in names} for batch in batches)
            return registry._with_release(method, pieces)

    @classmethod
    def _opened(cls, path: PrivatePath) -> Registry:
        """The registry in a file, or a new one where there is no file."""
        if path is None:
            return cls()
        file = as_path(path, "registry")
        if not file.exists():
            return cls(file, secrets.token_bytes(32))
        text = private_text(file, "registry", LARGEST)
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            content = json.loads(text)
            if content["microveil registry"] == VERSION:
                return cls(file, bytes.fromhex(content["key"]), tuple(_entry(entry) for entry in content["releases"]))
        raise FileError(f"registry: {shown(file)} is no registry of microveil", "name a new file, and it will be made")

    def _with_release(self, method: str, pieces: Iterable[Mapping[str, Array]]) -> Registry:
        """The registry with a release of the rows in some pieces: columns of numbers by name, the same in each."""
        rows = 0
        sketches: dict[str, Sketch] = {}
        for cells in pieces:
            rows += len(next(iter(cells.values()), ()))
            for name, hashes in self._hashes(cells):
                sketches[name] = sketches.get(name, NOTHING).with_more(np.unique(hashes)[:SMALLEST_KEPT])
        return replace(self, new=RegisteredRelease(datetime.now(UTC).date().isoformat(), method, rows, sketches))

    def _hashes(self, cells: Mapping[str, Array]) -> Iterator[tuple[str, Hashes]]:
        """Hashes of each row's cell, of its cells in neighbouring columns, and of all its cells; names have none."""
        names = sorted(cells)
        own = {name: _hashed(cells[name], self._number(name)) for name in names}
        with np.errstate(over="ignore"):
            yield self._label(*names), _mixed(np.sum(list(own.values()), axis=0, dtype=np.uint64))
            for name in names[:MOST_COLUMNS]:
                yield self._label(name), own[name]
            for one, other in pairwise(names[:MOST_COLUMNS]):
                yield self._label(one, other), _mixed(own[one] + own[other])

    def _number(self, *names: str) -> int:
        text = json.dumps(names).encode()
        return int.from_bytes(hashlib.blake2b(text, key=self.key, digest_size=8).digest())

    def _label(self, *names: str) -> str:
        return f"{self._number('label', *names):016x}"

    @property
    def text(self) -> str:
        """The file with the new release in it."""
        stored = [_stored(entry) for entry in (*self.releases, *([] if self.new is None else [self.new]))]
        return json.dumps({"microveil registry": VERSION, "key": self.key.hex(), "releases": stored}, indent=1) + "\n"

    def warned(self, release: Release) -> Release:
        """The release, with a warning of earlier ones of nearly the same data; the nearest one decides."""
        shares = [] if self.new is None else [(self.new.share_in(earlier), earlier) for earlier in self.releases]
        near = [(share, earlier) for share, earlier in shares if share >= NEARLY_SAME]
        if not near:
            return release
        share, earlier = max(near, key=lambda pair: pair[0])
        times = "" if len(near) == 1 else f", the nearest of {len(near)} such releases in the registry"
        warning = (
            f"about {share:.0%} of the rows were in a release of {earlier.date} ({earlier.method}){times}: each "
            "release tells more of the same records; release each vintage once, or use exact='rounded'"
        )
        return replace(release, warnings=[warning, *release.warnings])

    def added(self, release: Release) -> Release:
        """The release with such a warning, and itself in the registry now, which is for its owner only."""
        if self.path is not None:
            with atomic_targets([self.path], private=[self.path]) as (temporary,):
                temporary.write_text(self.text, encoding="utf-8")
        return self.warned(release)


def _hashed(values: Array, key: int) -> Hashes:
    """A keyed hash of each cell; equal cells have equal ones, and so have missing ones."""
    plain = np.where(np.isnan(values), np.nan, values + 0.0)
    return _mixed(_mixed(plain.view(np.uint64) ^ np.uint64(key)) ^ np.uint64(key))


def _mixed(bits: Hashes) -> Hashes:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _MIX[0]
        bits = (bits ^ (bits >> np.uint64(27))) * _MIX[1]
        return bits ^ (bits >> np.uint64(31))


def _stored(entry: RegisteredRelease) -> dict[str, Any]:
    stored = {name: base64.b64encode(sketch.hashes.tobytes()).decode() for name, sketch in entry.sketches.items()}
    return {"date": entry.date, "method": entry.method, "rows": entry.rows, "sketches": stored}


def _entry(content: Mapping[str, Any]) -> RegisteredRelease:
    """An entry as it was written; ValueError for anything else."""
    date, method, rows = str(content["date"]), str(content["method"]), content["rows"]
    datetime.strptime(date, "%Y-%m-%d")  # only to see whether it is a date, as messages show it
    if not isinstance(rows, int) or not method.isidentifier():
        raise ValueError
    stored = {str(name): base64.b64decode(text, validate=True) for name, text in content["sketches"].items()}
    sketches = {name: Sketch(np.frombuffer(hashes, dtype=np.uint64)) for name, hashes in stored.items()}
    return RegisteredRelease(date, method, rows, sketches)
