"""A race of candidates against the clock: many on a few rows, the better half on more, the best of them many times.

Successive halving (Jamieson and Talwalkar 2016) over rows, attacks and releases. What breaks signs or types, leaves a
column as it was or loses more than a shuffle of the columns is out at once, whatever it gains.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from microveil.assess import assess
from microveil.assessment import measuring
from microveil.core.rng import Streams
from microveil.io.frames.dataframes import fingerprint, open_frame, table_like
from microveil.io.frames.reorder import with_rows
from microveil.options import DECIMALS, NEGATIVE
from microveil.studies.columns import protected_columns
from microveil.studies.compare import ROLES as COLUMN_ROLES
from microveil.studies.compare import PlannedRelease, StudyPlan, identity_of, key_of, measured, planned_release
from microveil.studies.store import Store
from microveil.studies.study import LOSS, WORST, Study
from microveil.studies.workers import Run, task_pool

FEW_ROWS, ROWS = 300, 2_000
"""Rows of the first round, and of the others at most: attacks on more rows succeed less often, not more."""

CHECK_SECONDS, CHECK_SECONDS_PER_CELL = 3.0, 5e-6
"""About what a release of the whole file and its assessment take; two cores are faster, and a slow method is slower."""

MOST_OVER = 2.0
"""Times the whole time that a check on all rows may take: what takes longer is not begun."""

AT_ONCE = 4
"""Candidates that are few enough to be tried in full."""

CONFIRM = 4
"""Times as many releases as others have, of whoever is to be advised: the best of several in a few releases may have
been lucky in them."""

SELDOM = 0.1
"""Share of the releases in which some attack may surely gain more than its limit: of many attacks one is lucky."""

QUICK = ("dbrl", "rank_linkage", "interval_disclosure_own")
"""The attacks of the first round: each finds what others are slow to."""

RANKS = "rank_correlation_difference"
SHUFFLE = "each column shuffled on its own"

WHY = {
    "unchanged": "leaves {} as it was",
    NEGATIVE: "makes values negative where there were none ({})",
    DECIMALS: "breaks whole numbers into decimals ({})",
}
"""What speaks against a candidate, with its columns."""

BEHIND = ("others lose less", "others keep the limit more surely", "the limit is not kept")
"""Why a candidate does not go on, by how it keeps the limits."""

Progress = Callable[[str, float], None]
Results = dict[str, list[dict[str, Any]]]
Lows = tuple[float, float]
"""The low end of the interval of what an attack gains: of the worst on average, and of any in nearly all releases."""


@dataclass(frozen=True, repr=False)
class Race:
    """What came of it: figures of the last round, why others are `out`, and what the time did not allow (`untried`)."""

    study: Study
    shuffle: Mapping[str, float]
    out: Mapping[str, str]
    untried: Sequence[str]
    rows: tuple[int, int]
    seconds: float
    low_gains: Mapping[str, Lows] = field(default_factory=dict)
    """By candidate, what attacks surely gain."""

    worst: Mapping[str, str] = field(default_factory=dict)
    """By candidate, the attack that gains most on the average of the releases."""

    checked: str = ""
    """What a release of the whole file said, if the others were of some rows."""


@dataclass(frozen=True, repr=False)
class Contest:
    """What is raced: candidates by label, limits by measure, and how."""

    data: Any
    candidates: Mapping[str, tuple[str, Mapping[str, Any]]]
    ladders: Sequence[Sequence[str]]
    """The candidates by method, at growing doses: what speaks against a dose speaks against larger ones."""

    roles: Mapping[str, Any]
    measures: Sequence[str]
    limits: Mapping[str, float]
    sensitive: Sequence[str] | None
    allow: Sequence[str]
    repeats: int
    seed: int | None = field(repr=False)
    fixed: frozenset[str] = frozenset()
    """Candidates that draw nothing: one release is all of them."""


def race(contest: Contest, store: Store, workers: int, seconds: float | None, progress: Progress | None) -> Race:
    """Race the candidates for so many seconds (None: to the end)."""
    began = time.monotonic()
    run = _Run(contest, store, math.inf if seconds is None else began + seconds, progress or (lambda *_: None), began)
    end, run.until = run.until, run.until - min(run.check_takes, (run.until - began) / 2)
    with store.writing(), task_pool(_work, run.plans, workers) as pool:
        run.all_rounds(pool)
    with store.writing():
        run.check(end)
    if not any(run.results):  # an answer late is better than none
        run.until = math.inf
        with store.writing(), task_pool(_work, run.plans, 1) as pool:
            run.one(pool)
    return run.race()


def _work(plans: Sequence[StudyPlan], item: tuple[int, PlannedRelease]) -> dict[str, Any]:
    number, planned = item
    return measured(plans[number], planned) if planned.method else _shuffled(plans[number])


def _shuffled(plan: StudyPlan) -> dict[str, Any]:
    """What a shuffle of each column on its own loses."""
    columns = protected_columns(plan.data, {**{name: plan.roles[name] for name in plan.roles if name != "rules"}})
    ids = [name for name in (LOSS, RANKS) if name in plan.measures]
    found = assess(plan.data, plan.data, confidential=columns, measures=ids or [LOSS], seed=0)
    lines = found.sanity
    return {"figures": {} if lines is None else {name: one.value for name, one in lines.shuffle.items()}}


class _Run:
    """The rounds of a race, one after the other."""

    def __init__(self, contest: Contest, store: Store, until: float, tell: Progress, began: float) -> None:
        self.contest, self.store, self.until, self.tell, self.began = contest, store, until, tell, began
        self.count = open_frame(contest.data).count
        attacks = QUICK if WORST in contest.limits else ()
        quick = [name for name in contest.measures if name in (*attacks, *contest.limits, LOSS, RANKS, WORST)]
        plan = StudyPlan(contest.data, contest.roles, contest.measures, contest.sensitive, as_released=True)
        self.whole = plan
        self.plans = [replace(self._sampled(plan, FEW_ROWS), measures=quick), self._sampled(plan, ROWS)]
        self.keys = [
            key_of(
                "race", fingerprint(one.data), json.dumps(identity_of([one.roles, one.sensitive])), sorted(one.measures)
            )
            for one in (*self.plans, plan)
        ]
        cells = self.count * len(protected_columns(contest.data, {name: contest.roles[name] for name in COLUMN_ROLES}))
        self.check_takes = CHECK_SECONDS + CHECK_SECONDS_PER_CELL * cells if self.count > ROWS else 0.0
        self.checked = ""
        self.results: list[Results] = [{}, {}, {}]
        self.shuffle: list[dict[str, float]] = [{}, {}]
        self.out: dict[str, str] = {}
        self.shown = 0.0
        self.field = list(contest.candidates)

    def _sampled(self, plan: StudyPlan, most: int) -> StudyPlan:
        if self.count <= most:
            return plan
        seed = 0 if self.contest.seed is None else self.contest.seed  # a store must find the same rows again
        rows = Streams.from_seed(seed).stream("rows of a race").generator().permutation(self.count)[:most]
        return replace(plan, data=with_rows(plan.data, np.sort(rows)))

    def all_rounds(self, pool: Run) -> None:
        """Few rows, more rows, more releases; each for those that are left."""
        if len(self.field) > AT_ONCE:
            likely, *others = self.contest.ladders  # if there is time for nothing else, there is an answer
            self._round(pool, 0, [*likely, *(ladder[0] for ladder in others)], range(1), 0.4)
            self._inherit()
            self._round(pool, 0, [label for label in self.field if label not in self.results[0]], range(1), 0.5)
            self.field = self._best(0, max(AT_ONCE, len(self.contest.candidates) // 4))
        self._round(pool, 1, self.field, range(1), 0.7)
        if self.results[1]:
            self.field = self._best(1, AT_ONCE)
        self._round(pool, 1, self.field, range(1, self.contest.repeats), 0.8)
        self._confirm(pool)

    def _confirm(self, pool: Run) -> None:
        """More releases of the one that is to be advised; if they speak against it, of the next."""
        repeats, confirmed = self.contest.repeats, set(self.contest.fixed)
        while time.monotonic() < self.until:
            known = {label: self.results[1][label] for label in self.field if label in self.results[1]}
            order = in_order(self._study(1, list(known)), self.contest.limits, _lows(known))
            best = next((label for label, (place, _) in order.items() if place < 2), None)
            if best is None or best in confirmed:
                return
            confirmed.add(best)
            self._round(pool, 1, [best], range(repeats, CONFIRM * repeats), 1.0)

    def check(self, end: float) -> None:
        """Release the whole file by the one that is to be advised; if that speaks against it, by the next.

        The first is released even if that takes longer than to the `end`, unless much longer.
        """
        if not self.check_takes:
            return
        takes = f"about {math.ceil(self.check_takes)} s"
        self.checked = f"not checked on all {self.count:,} rows, which takes {takes}: allow more time"
        if self.check_takes > MOST_OVER * (end - self.began):
            return
        last = 1 if self.results[1] else 0
        while self.results[2] == {} or time.monotonic() + self.check_takes < end:
            known = {label: self.results[last][label] for label in self.field if label in self.results[last]}
            order = in_order(self._study(last, list(known)), self.contest.limits, _lows(known))
            best = next((label for label, (place, _) in order.items() if place < 2), None)
            if best is None:
                self.checked = ""
                return
            self.tell(f"checking {best} on all rows", self.shown)
            one = planned_release(best, *self.contest.candidates[best], 0, self.keys[2], self.contest.seed)
            if one.key not in self.store.results:
                self.store.add(one.key, measured(self.whole, one))
            self._add(2, one, self.store.results[one.key])
            against = self._against(best)
            if not against:
                return
            self.out[best] = f"on all {self.count:,} rows it {against}"
            self.field.remove(best)

    def _against(self, label: str) -> str:
        """What a release of the whole file says against a candidate; what it says for it is noted."""
        found = {label: self.results[2][label]}
        shuffle = self.shuffle[1] or self.shuffle[0]
        fault = self._fault(found[label], {name: most for name, most in shuffle.items() if name == RANKS})
        place, _ = (2, 0.0) if fault else in_order(self._study(2, [label]), self.contest.limits, _lows(found))[label]
        if place == 2:
            return fault or "does not keep the limit"
        study, (worst, gain, _) = self._study(2, [label]), worst_of(found[label])
        figures = [f"{name} {study.summary(label, name).mean:.3g}" for name in (*self.contest.limits, RANKS)
                   if name != WORST and study.has(label, name)]  # fmt: skip
        figures = [*([f"its worst attack, {worst}, gains {gain:.3g}"] if worst else []), *figures]
        kept = "keeps the limit" if place == 0 else "keeps the limit as far as can be told"
        self.checked = f"checked on all {self.count:,} rows: one release {kept} there, too ({', '.join(figures)})"
        return ""

    def one(self, pool: Run) -> None:
        """The first candidate on few rows."""
        self._round(pool, 0, self.field[:1], range(1), 1.0)

    def _inherit(self) -> None:
        for first, *larger in self.contest.ladders:
            if first in self.out:
                self.out.update(dict.fromkeys(larger, self.out[first]))
        self.field = [label for label in self.field if label not in self.out]

    def _round(self, pool: Run, number: int, labels: Sequence[str], repeats: range, share: float) -> None:
        """Release and measure those named, the first of them first, for a share of the time."""
        key, seed = self.keys[number], self.contest.seed
        items = [
            planned_release(label, *self.contest.candidates[label], repeat, key, seed)
            for label in labels
            for repeat in (repeats if label not in self.contest.fixed else [one for one in repeats if one == 0])
        ]
        if not self.shuffle[number]:
            items.insert(min(2, len(items)), PlannedRelease(SHUFFLE, "", {}, 0, key_of(key, SHUFFLE), None))
        waiting = [one for one in items if one.key not in self.store.results]
        for one in items:
            if one.key in self.store.results:
                self._add(number, one, self.store.results[one.key])
        start, done = self._share(), 0

        def finished(place: int, result: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            self.store.add(waiting[place].key, result)
            self._add(number, waiting[place], result)
            of_work = start + (share - start) * done / len(waiting)
            self.shown = max(self.shown, min(of_work, 1.0), self._share())  # it never goes back
            self.tell(f"trying {waiting[place].label}", self.shown)

        begin = self.began + share * (self.until - self.began) if share < 1 and any(self.results) else math.inf
        if time.monotonic() < self.until and waiting:
            pool([(number, one) for one in waiting], finished, self.until, begin)
        self._judge(number)

    def _share(self) -> float:
        """Of the time."""
        return 0.0 if self.until == math.inf else (time.monotonic() - self.began) / (self.until - self.began)

    def _add(self, number: int, one: PlannedRelease, result: dict[str, Any]) -> None:
        if one.method:
            self.results[number].setdefault(one.label, []).append(result)
        else:
            self.shuffle[number] = result["figures"]

    def _judge(self, number: int) -> None:
        """Note who is out."""
        for label, found in self.results[number].items():
            why = self._fault(found, self.shuffle[number])
            if why:
                self.out.setdefault(label, why)
        self.field = [label for label in self.field if label not in self.out]

    def _fault(self, found: Sequence[Mapping[str, Any]], shuffle: Mapping[str, float]) -> str:
        for one in found:
            if "failed" in one:
                return f"could not be applied: {one['failed']}"
            for word, names in one["odd"].items():
                if word not in self.contest.allow:
                    return WHY[word].format(names)
        for name, most in shuffle.items():
            mean = float(np.mean([one["figures"].get(name, 0.0) for one in found]))
            if mean > most:
                return f"loses more than {SHUFFLE}: {name} {mean:.3g}, where the shuffle has {most:.3g}"
        return ""

    def _best(self, number: int, most: int) -> list[str]:
        """Those that go on, the best first, of those for which there was time."""
        known = {label: found for label, found in self.results[number].items() if label in self.field}
        order = in_order(self._study(number, list(known)), self.contest.limits, _lows(known))
        most = min(most, sum(place < 2 for place, _ in order.values()) or most)
        for label, (place, loss) in list(order.items())[most:]:
            self.out[label] = (
                f"{BEHIND[place]} (on {open_frame(self.plans[number].data).count} rows, {LOSS} {loss:.3g})"
            )
        return list(order)[:most]

    def _study(self, number: int, labels: Sequence[str]) -> Study:
        """What was measured of candidates that gave releases, the gain of one attack for each in the place of all."""
        whole = {n: self.results[number][n] for n in labels if not any("failed" in o for o in self.results[number][n])}
        figures = {}
        for label, found in whole.items():
            name = worst_of(found)[0]
            own = [{WORST: one["gains"][name][0]} if name in one["gains"] else {} for one in found]
            figures[label] = [{**one["figures"], **gain} for one, gain in zip(found, own, strict=True)]
        failed = {n: o["failed"] for n in labels for o in self.results[number][n] if "failed" in o}
        contest, plan = self.contest, (*self.plans, self.whole)[number]
        chances = {label: found[0]["chances"] for label, found in whole.items()}
        frame = partial(table_like, open_frame(contest.data))
        methods = {label: contest.candidates[label] for label in labels}
        return Study(
            methods, figures, chances, measuring.entries(), failed, frame, plan.measures, contest.fixed & set(labels)
        )

    def race(self) -> Race:
        """What came of it: of the last round in which anything was measured."""
        order = in_order(self._study(1, list(self.results[1])), self.contest.limits, _lows(self.results[1]))
        good = any(place < 2 and label not in self.out for label, (place, _) in order.items())
        last = 1 if good or set(self.results[1]) >= set(self.field) else 0
        results = self.results[last]
        tried = {label for one in self.results for label in one}
        untried = [label for label in self.contest.candidates if label not in tried]
        untried = [label for label in untried if label not in self.out]
        rows = open_frame(self.plans[last].data).count, self.count
        return Race(
            self._study(last, list(results)),
            self.shuffle[last],
            self.out,
            untried,
            rows,
            time.monotonic() - self.began,
            _lows(results),
            {label: worst_of(found)[0] for label, found in results.items()},
            self.checked,
        )


def in_order(study: Study, limits: Mapping[str, float], lows: Mapping[str, Lows]) -> dict[str, tuple[int, float]]:
    """Candidates, the best first, each with how it keeps the limits (0: yes, 1: as far as can be told, 2: no) and loss.

    What the worst attack gains is held against its limit on the average of the releases, as in one release some attack
    of many is lucky; and only seldom may one surely gain more, as one release is let out. Where the average is above,
    but the low end (`lows`) of the average is not, no release shows it: luck would do. Other limits are as
    `Study.ranked` holds them.
    """
    found: dict[str, tuple[int, float, float]] = {}
    for label in study.figures:
        if not study.has(label, LOSS) or label in study.unprotected:
            continue
        place, beyond = 0, 0.0
        for name, most in limits.items():
            kept = study.keeps(label, name, most, "mean" if name == WORST else "high")
            if name == WORST:
                kept = kept and lows[label][1] <= most
            lucky = name == WORST and lows[label][0] <= most
            place = max(place, 0 if kept else 1 if lucky else 2)
            if not kept:
                off = abs(study.summary(label, name).mean - most) if study.has(label, name) else math.inf
                beyond = max(beyond, off)
        found[label] = place, beyond if place == 2 else 0.0, study.summary(label, LOSS).mean
    return {label: (found[label][0], found[label][2]) for label in sorted(found, key=lambda one: found[one])}


def _lows(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Lows]:
    return {
        label: (
            worst_of(found)[2],
            _mostly([max((low for _, low in one.get("gains", {}).values()), default=0.0) for one in found]),
        )
        for label, found in results.items()
    }


def _mostly(highest: Sequence[float]) -> float:
    """What is exceeded seldom: of few releases the highest of all."""
    return float(np.quantile(highest, 1 - SELDOM, method="higher")) if highest else 0.0


def worst_of(found: Sequence[Mapping[str, Any]]) -> tuple[str, float, float]:
    """The attack that gains most on the average of the releases, that gain, and the mean low end of its interval.

    In one release some attack of many is lucky; who chooses an attack beforehand chooses by what it gains on average.
    """
    gains = [one["gains"] for one in found if one.get("gains")]
    names = set.intersection(*(set(one) for one in gains)) if gains else set()
    means = {name: np.mean([one[name] for one in gains], axis=0).tolist() for name in sorted(names)}
    name = max(means, key=lambda one: means[one][0], default="")
    lowest = max((low for _, low in means.values()), default=0.0)
    return name, *((means[name][0], lowest) if name else (0.0, 0.0))
