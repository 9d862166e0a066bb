"""Every method against every attack: what succeeds must be refused, or warned of and visible in `assess`.

An attack gets a table, has it protected, and says how much it gained and from where on that is a success. A warning
counts only if the release of a method that the attack gains nothing from does not have it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from membership import halves, untrained_gap_auc
from numpy.typing import NDArray
from samples import factor_amounts

import microveil as mv
from microveil.errors import MicroveilError

Array = NDArray[np.float64]

TAILS = 12
"""Largest values that an attack on them is judged by, at least."""

CONTROL = "veil"
"""The method whose warnings do not count."""


@dataclass(frozen=True)
class Tried:
    """What an attack gained from a release, and from where on that is a success."""

    gained: float
    limit: float
    original: Array
    release: mv.Release


@dataclass(frozen=True)
class Attack:
    """An attack: its story in a line, what it does, and the measures that see it."""

    story: str
    run: Callable[[str, Array, int], Tried]
    seen_by: tuple[str, ...]


def people(seed: int) -> Array:
    """Ages, hours, incomes: bounded, rounded, with zeros and ties."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(400)
    scores = 0.6 * common[:, None] + 0.8 * rng.standard_normal((400, 5))
    income = np.round(np.exp(7.5 + 0.6 * scores[:, 0]))
    benefits = np.where(scores[:, 1] > 0.3, np.round(300 * np.exp(0.4 * scores[:, 1])), 0.0)
    age, hours = np.round(np.clip(45 + 14 * scores[:, 2], 16, 99)), np.round(np.clip(36 + 8 * scores[:, 3], 0, 70), 1)
    return np.column_stack([income, benefits, age, hours, np.round(100 * np.exp(scores[:, 4]), 2)])


def survey(seed: int) -> Array:
    """The bundled survey, half of its complete records."""
    table = pl.read_csv(mv.example_file()).select(pl.col(pl.Int64, pl.Float64)).drop("weight", "rd_spending")
    whole = table.drop("turnover_total").drop_nulls().to_numpy().astype(float)
    return halves(whole, np.random.default_rng(seed))[0]


FILES: dict[str, Callable[[int], Array]] = {"firms": factor_amounts, "people": people, "survey": survey}


def protect(method: str, data: Any, seed: int, **roles: Any) -> mv.Release:
    """A release with the method's defaults; another masker's output for those that start from one."""
    others = {}
    if method in ("correct", "synthetic_addition"):
        others["other"] = mv.protect(data, "noise", seed=seed + 1, **roles).data
    return mv.protect(data, method, seed=seed, **roles, **others)


def lone_gap(method: str, data: Array, seed: int) -> Tried:
    """Is the record with the only gap of a column released as it was?"""
    row, data = int(np.random.default_rng(seed).integers(len(data))), data.copy()
    data[row, 0] = np.nan
    release = protect(method, data, seed)
    return Tried(_nearer_than_others(data, np.asarray(release.data), np.array([row])), 0.9, data, release)


def rare_label(method: str, data: Array, seed: int) -> Tried:
    """Are the three records of a rare public label released as they were?"""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(data), 3, replace=False)
    label = rng.choice(["a", "b"], len(data)).astype(object)
    label[rows] = "rare"
    names = [f"c{j}" for j in range(data.shape[1])]
    frame = pl.DataFrame({**dict(zip(names, data.T, strict=True)), "label": label})
    release = protect(method, frame, seed, confidential=names, public=["label"])
    return Tried(_nearer_than_others(data, release.data.select(names).to_numpy(), rows), 0.9, data, release)


def _nearer_than_others(data: Array, released: Array, rows: NDArray[np.intp]) -> float:
    """1 less the rank error of some rows over that of all; 1 if they came back."""
    errors = np.full(data.shape, np.nan)
    for j, (old, new) in enumerate(zip(data.T, released.T, strict=True)):
        there = ~np.isnan(old)
        ascending = np.sort(old[there])
        errors[there, j] = np.abs(np.searchsorted(ascending, old[there]) - np.searchsorted(ascending, new[there]))
    own = np.nanmean(errors, axis=1)
    return float(1 - own[rows].mean() / own.mean())


def giant(method: str, data: Array, seed: int) -> Tried:
    """Does some released record have most values of the one giant, within a tenth?"""
    rng = np.random.default_rng(seed)
    huge = 1000 * np.abs(data).mean(axis=0) * rng.lognormal(0, 0.3, data.shape[1])
    data = np.vstack([data, huge])
    release = protect(method, data, seed)
    close = np.abs(np.asarray(release.data) - huge) <= 0.1 * huge
    return Tried(float(close.mean(axis=1).max()), 0.6, data, release)


def member(method: str, data: Array, seed: int) -> Tried:
    """Do the gaps between a record's values and the released ones tell that it was in the file?"""
    inside, outside = halves(data, np.random.default_rng(seed))
    release = protect(method, inside, seed)
    return Tried(untrained_gap_auc(inside, outside, np.asarray(release.data)).auc, 0.67, inside, release)


def largest(method: str, data: Array, seed: int) -> Tried:
    """Can the second largest of each column tell the largest within a tenth, by the released sum of two?

    Of two or three columns, most are told by accident now and then: so of few columns there are several releases.
    """
    release = protect(method, data, seed)
    ordered = np.sort(data, axis=0)[::-1]
    # Else everybody knows it within a tenth.
    worth = ((ordered == ordered[0]).sum(axis=0) < 5) & (ordered[4] < 0.8 * ordered[0])
    told: list[float] = []
    for number in range(-(-TAILS // max(int(worth.sum()), 1)) if worth.any() else 0):
        again = protect(method, data, seed + 1000 * number) if number else release
        top = np.sort(np.asarray(again.data), axis=0)[::-1]
        told += (np.abs(top[:2].sum(axis=0) - ordered[:2].sum(axis=0)) <= 0.1 * np.abs(ordered[0]))[worth].tolist()
    return Tried(float(np.mean(told)) if told else 0.0, 0.5, data, release)


def link(method: str, data: Array, seed: int) -> Tried:
    """Is the released record that is nearest to an original its own?"""
    release = protect(method, data, seed)
    before, after = (table / data.std(axis=0) for table in (data, np.asarray(release.data)))
    nearest = np.array([np.argmin(np.square(after - row).sum(axis=1)) for row in before])
    return Tried(float((nearest == np.arange(len(data))).mean()), 0.1, data, release)


def small_file(method: str, data: Array, seed: int) -> Tried:
    """Does a release of ten records and three columns hold one of them?"""
    few = data[np.random.default_rng(seed).choice(len(data), 10, replace=False), :3]
    release = protect(method, few, seed)
    back = [(np.abs(np.asarray(release.data) - row) <= 1e-9 * few.std(axis=0)).all(axis=1).any() for row in few]
    return Tried(float(np.mean(back)), 0.0, few, release)


LINKED = ("dbrl", "mahalanobis_linkage", "rank_linkage", "optimal_linkage", "near_matches", "max_record_risk")

ATTACKS: dict[str, Attack] = {
    "lone gap": Attack("the only gap of a column points to its record", lone_gap, LINKED),
    "rare label": Attack("a public label of three records brings them back", rare_label, LINKED),
    "giant": Attack("one record dominates, and comes back in some row", giant, (*LINKED, "extreme_disclosure")),
    "member": Attack("gaps to released values tell who is in the file", member, ("membership",)),
    "largest": Attack(
        "the second largest tells the largest by a sum", largest, ("extreme_disclosure", "membership", *LINKED)
    ),
    "link": Attack("the nearest released record is one's own", link, LINKED),
    "small file": Attack("ten records, one of which comes back", small_file, ("exact_matches", *LINKED)),
}


def outcome(method: str, attack: str, data: Array, seed: int) -> str:
    """ "refused", "holds", "seen" (it succeeds, but is warned of and visible in `assess`) or "open"."""
    try:
        tried = ATTACKS[attack].run(method, data, seed)
    except MicroveilError:
        return "refused"
    if tried.gained <= tried.limit:
        return "holds"
    warned = _without_numbers(tried.release.warnings) - _ordinary_warnings(attack, data.tobytes(), data.shape, seed)
    return "seen" if warned and visible(tried, ATTACKS[attack].seen_by) else "open"


@cache
def _ordinary_warnings(attack: str, data: bytes, shape: tuple[int, int], seed: int) -> frozenset[str]:
    """What a release of the control warns of; all methods are held against it."""
    table = np.frombuffer(data).reshape(shape)
    return _without_numbers(ATTACKS[attack].run(CONTROL, table, seed).release.warnings)


def _without_numbers(warnings: Iterable[str]) -> frozenset[str]:
    return frozenset(re.sub(r"\d+", "#", warning) for warning in warnings)


def visible(tried: Tried, measures: tuple[str, ...]) -> bool:
    """Does one of the measures say more than chance does?"""
    released = tried.release.data
    if isinstance(released, pl.DataFrame):
        released = released.select([f"c{j}" for j in range(tried.original.shape[1])]).to_numpy()
    found: Mapping[str, Any] = mv.assess(tried.original, released, measures=list(measures), seed=1, sanity=False)
    return any(figure.chance is not None and figure.value > figure.chance for figure in found.values())
