"""A session: what is shown to whom, in which order, and on which side the reference is.

A stimulus is a pair of pictures, the original table (the reference) and what processing has left of it, shown side by
side without saying which is which: the double stimulus that D'Acquisto and Naldi opt for (§IV). Some pairs show the
reference twice; what these hidden references get is what the panel gives where there is nothing to see.

    [session]
    name = "summer panel"
    version = 1
    simulated = false

    [[stimuli]]
    id = "firms-2"
    source = "firms"
    removed = 2
    ssim = 0.71
    psnr = 18.2
    hidden = false
    original = "firms.csv"
    processed = "firms-2.csv"

    [[observers]]
    id = "observer-1"
    order = ["firms-2", ...]
    reference = ["left", ...]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from microveil.core.arrays import Mask
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.io.config_files import Strict, checked, plain_data, read_strictly
from microveil.storage.atomic import shown

SESSION_VERSION = 1
HINT = "`microveil mos session` writes one"

MOST = 100_000
"""Pairs to be shown, over all observers: more is a slip."""

Side = Literal["left", "right"]


def _check_name(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("must be printable, without spaces around it")
    return value


Id = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_check_name)]
"""What a person or a stimulus is called, here and in the ratings."""


class Stimulus(Strict):
    """A pair of pictures: a source, and the source after `removed` of its largest components were taken out.

    `ssim` and `psnr` are what microveil's measures of these names say of the two. A `hidden` one is the source twice.
    `original` and `processed` are the files to be shown, seen from the file of the session; both, or neither.
    """

    id: Id
    source: Id
    removed: int = Field(ge=0)
    ssim: float = Field(ge=-1, le=1)
    psnr: float = Field(ge=0)
    hidden: bool = False
    original: str | None = None
    processed: str | None = None

    @model_validator(mode="after")
    def _both_files_or_neither(self) -> Self:
        if (self.original is None) != (self.processed is None):
            raise ValueError("it takes two files, original and processed, to show a pair")
        if self.hidden and self.original != self.processed:
            raise ValueError("a hidden reference is shown beside itself: original and processed are one file")
        return self

    @model_validator(mode="after")
    def _hidden_ones_differ_in_nothing(self) -> Self:
        if self.hidden and (self.removed, self.ssim, self.psnr) != (0, 1.0, np.inf):
            raise ValueError("a hidden reference is shown beside itself: removed 0, ssim 1 and psnr inf")
        return self


class Observer(Strict):
    """Somebody who looks: the stimuli in the order in which they come, and the side on which each reference is."""

    id: Id
    order: Annotated[tuple[Id, ...], Field(strict=False)]
    reference: Annotated[tuple[Side, ...], Field(strict=False)]


class _Header(Strict):
    name: Id
    version: int
    simulated: bool = False


class Session(Strict):
    """Stimuli, observers, and what each of them sees, as the file holds it; `simulated` where no person is among them.

    Everybody sees everything, once. There is no seed in it.
    """

    session: _Header
    stimuli: Annotated[tuple[Stimulus, ...], Field(strict=False, min_length=1)]
    observers: Annotated[tuple[Observer, ...], Field(strict=False, min_length=1)]

    @model_validator(mode="after")
    def _everybody_sees_everything(self) -> Self:
        if self.session.version != SESSION_VERSION:
            raise ValueError(f"version {self.session.version} is not known; this microveil reads {SESSION_VERSION}")
        for kind, entries in (("stimulus", self.stimuli), ("observer", self.observers)):
            _check_once(kind, [entry.id for entry in entries])
        known = {stimulus.id for stimulus in self.stimuli}
        for observer in self.observers:
            who = f"observer {shown(observer.id)}"
            strange = [name for name in observer.order if name not in known]
            if strange:
                raise ValueError(f"{who}: there is no stimulus {shown(strange[0])}")
            _check_once(f"{who}: stimulus", observer.order)
            if len(observer.order) < len(known):
                lacking = next(stimulus.id for stimulus in self.stimuli if stimulus.id not in observer.order)
                raise ValueError(f"{who}: stimulus {shown(lacking)} is not in the order")
            if len(observer.reference) != len(observer.order):
                raise ValueError(f"{who}: {len(observer.reference)} sides for {len(observer.order)} stimuli")
        return self

    def __repr__(self) -> str:
        """A summary: whoever has the orders knows where the reference is."""
        people = f"{len(self.observers)} {panel(self.simulated)}"
        return f"<Session {shown(self.name)}: {len(self.stimuli)} stimuli, {people}>"

    __str__ = __repr__

    @property
    def name(self) -> str:
        """What it is called."""
        return self.session.name

    @property
    def simulated(self) -> bool:
        """Is no person among the observers?"""
        return self.session.simulated

    def to_dict(self) -> dict[str, Any]:
        """What the file holds."""
        content: dict[str, Any] = plain_data(self.model_dump(exclude_none=True))
        return content


def panel(simulated: bool) -> str:
    """What the observers of a session are."""
    return "simulated observers" if simulated else "observers"


def read_session(source: Mapping[str, Any] | str | Path) -> Session:
    """A session from its file, or from a dict of the same shape."""
    return read_strictly(Session, "session", source, HINT)


def make_session(
    stimuli: Sequence[Stimulus | Mapping[str, Any]],
    observers: int | Sequence[str],
    *,
    seed: int | None = None,
    name: str = "session",
    simulated: bool = False,
) -> Session:
    """Who sees what, when, and on which side: at random, but evenly.

    Every source without a hidden reference gets one. Orders are rows of Williams squares: over as many observers as
    there are stimuli, every stimulus comes once in every place, and (for an even number; else over twice as many
    observers) once after every other. The reference is on either side equally often, for every observer and for every
    stimulus, as nearly as the numbers allow. `observers` are names, better invented ones, or how many; `simulated` says
    that none is a person; `name` is that of the session.
    """
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ParameterError("seed: must be a whole number of at least 0", "leave it out for a fresh one")
    given = [dict(entry) if isinstance(entry, Mapping) else entry for entry in stimuli]
    if isinstance(observers, bool) or (isinstance(observers, int) and not 1 <= observers <= MOST):
        raise ParameterError("observers: must be names, or how many there are", "15 is the least that BT.500 advises")
    if isinstance(observers, int):
        observers = [f"observer-{number:0{len(str(observers))}}" for number in range(1, observers + 1)]
    people = list(observers)
    if len(people) * len(given) > MOST:
        raise ParameterError(f"there are more than {MOST} pairs to be shown", "split the session")
    # Checked twice: the hidden references need stimuli that are in order, and the whole needs its own rules.
    whole = checked(_Listed, "session", {"stimuli": given}, HINT).stimuli
    shown_ones = [*whole, *_hidden_references(whole)]
    streams = Streams.from_seed(None if seed is None else int(seed))
    orders = balanced_orders(len(shown_ones), len(people), streams.stream("mos", "orders").generator())
    left = balanced_sides(len(shown_ones), len(people), streams.stream("mos", "sides").generator())
    content = {
        "session": {"name": name, "version": SESSION_VERSION, "simulated": simulated},
        "stimuli": [stimulus.model_dump(exclude_none=True) for stimulus in shown_ones],
        "observers": [
            {
                "id": person,
                "order": [shown_ones[k].id for k in order],
                "reference": ["left" if on_left[k] else "right" for k in order],
            }
            for person, order, on_left in zip(people, orders, left, strict=True)
        ],
    }
    return checked(Session, "session", content, HINT)


def balanced_orders(stimuli: int, observers: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Rows of Williams squares in which the stimuli have drawn their numbers, the rows of each square in random order.

    Any one order is as likely as any other.
    """
    step = np.arange(stimuli)
    first = np.where(step % 2, (step + 1) // 2, -(step // 2))  # 0, 1, -1, 2, -2, ...: neighbours differ by all there is
    square = (first + step[:, None]) % stimuli
    squares = [square] if stimuli % 2 == 0 else [square, square[:, ::-1]]
    orders: list[NDArray[np.intp]] = []
    while len(orders) < observers:
        drawn = rng.permutation(stimuli)
        for rows in squares:
            orders.extend(drawn[row] for row in rng.permutation(rows))
    return orders[:observers]


def balanced_sides(stimuli: int, observers: int, rng: np.random.Generator) -> Mask:
    """Is the reference on the left? Observers x stimuli.

    One observer has it there for half of the stimuli, the next for the other half.
    """
    left = np.empty((observers, stimuli), dtype=bool)
    for first in range(0, observers, 2):
        left[first] = rng.permutation(stimuli) < (stimuli + rng.integers(2)) // 2
        left[first + 1 : first + 2] = ~left[first]
    return left


class _Listed(Strict):
    stimuli: Annotated[tuple[Stimulus, ...], Field(strict=False, min_length=1)]


def _hidden_references(stimuli: Sequence[Stimulus]) -> list[Stimulus]:
    """A pair of the same pictures for every source that has none."""
    have = {stimulus.source for stimulus in stimuli if stimulus.hidden}
    files: dict[str, str | None] = {}
    for stimulus in stimuli:
        if stimulus.source not in have:
            files.setdefault(stimulus.source, stimulus.original)
    same: dict[str, Any] = {"removed": 0, "ssim": 1.0, "psnr": np.inf, "hidden": True}
    return [
        Stimulus(id=f"{source[:90]}-reference", source=source, original=file, processed=file, **same)
        for source, file in files.items()
    ]


def _check_once(kind: str, names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1] if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"{kind} {shown(twice[0])} is there twice")
