"""What `assess` gives back: figures by their id, and for the scale those of two releases that everybody can judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from microveil.assessment.policy import Verdict
from microveil.core.displayed import Displayed, warned
from microveil.core.errors import did_you_mean
from microveil.measures.base import Kind, Measure, MeasureInfo

WORST = "worst_attack"
WORST_MEANING = "what the attack that gains most gains over chance, as a share of what was to be gained"

NO_SHARES = (WORST, "max_record_risk")
"""Figures that are made of others, or are about one record, and so are no attack of their own."""

MOST_RECORDS = 1_000

Table = Mapping[str, list[Any]]
"""Columns by name."""


@dataclass(frozen=True, repr=False)
class Sanity:
    """The same figures where everybody knows what to expect, so that a figure has a scale.

    `identity`: the originals released as they are; `shuffle`: each column of them shuffled on its own, which keeps
    every distribution and no relation. Both are measured on `rows` of the `of` original records, drawn at random.
    """

    identity: Mapping[str, Measure]
    shuffle: Mapping[str, Measure]
    rows: int
    of: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        lines = {"identity": self.identity, "shuffle": self.shuffle}
        return {
            "rows": self.rows,
            "of": self.of,
            **{line: {name: _figures(measure) for name, measure in found.items()} for line, found in lines.items()},
        }


@dataclass(frozen=True, repr=False, eq=False)
class Assessment(Displayed, Mapping[str, Measure]):
    """Measured figures by their id.

    `skipped` says which measures asked for were not taken, and why; `notes` what a reader must know; `verdict` what the
    policy says, if there was one.
    """

    figures: Mapping[str, Measure]
    entries: Mapping[str, MeasureInfo]
    columns: tuple[str, ...]
    rows: tuple[int, int]
    sanity: Sanity | None
    skipped: Mapping[str, str]
    notes: list[str]
    make_frame: Callable[[Table], Any]
    verdict: Verdict | None = None
    in_clear: Measure | None = None
    """Share of the records that are alone with what is released as it is, where something is and a risk was asked for:
    an attack like the others, even if nobody named it."""

    find_records: Callable[[int], Table] | None = None

    def __getitem__(self, name: str) -> Measure:
        if name not in self.figures:
            raise KeyError(f"{name} was not measured; {self.skipped.get(name) or did_you_mean(name, self.figures)}")
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def __repr__(self) -> str:
        """A summary without a data value: this ends up in notebooks and logs."""
        worst = self.worst_attack
        attack = "" if worst is None else f", worst attack {worst.id} {worst.value:.4g} (chance {worst.chance:.4g})"
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        policy = "" if self.met is None else f", policy {'met' if self.met else 'not met'}"
        return (
            f"<Assessment of {len(self.columns)} columns, {self.rows[1]} rows: {len(self.figures)} figures"
            f"{skipped}{attack}{policy}>{warned(self.notes)}"
        )

    def of_kind(self, kind: Kind) -> dict[str, Measure]:
        """The figures of risk, of utility, or the scores."""
        return {name: measure for name, measure in self.figures.items() if self.entries[name].kind == kind}

    def known(self, name: str) -> tuple[float | None, float | None]:
        """What the originals themselves and a shuffle of them give, where it was measured."""
        lines = (None, None) if self.sanity is None else (self.sanity.identity, self.sanity.shuffle)
        identity, shuffle = (None if line is None or name not in line else line[name].value for line in lines)
        return identity, shuffle

    @property
    def records(self) -> Any:
        """The records at highest risk, the worst first, 1,000 at most: row (from 0), risk, and the reason in words.

        A frame of the kind that was assessed (polars for arrays), for the owner's eyes only: it says who is at risk.
        """
        return self.make_frame(self.records_at_risk(MOST_RECORDS))

    def records_at_risk(self, most: int) -> Table:
        """The same as plain columns; nothing where records were not held in memory."""
        return {"row": [], "risk": [], "reason": []} if self.find_records is None else self.find_records(most)

    @property
    def met(self) -> bool | None:
        """Is the policy met? None if there was none."""
        return None if self.verdict is None else self.verdict.met

    @property
    def worst_attack(self) -> Measure | None:
        """The attack that gains most over chance: (value - chance) / (1 - chance), the share of what was to be gained.

        An attack without a chance level, such as `interval_disclosure_sd`, is left out: nobody can say what it gains.
        What the worst gains is a figure of its own, `assessment["worst_attack"]`.
        """
        worst = next(iter(self.gains), None)
        if worst is None or worst in self.figures:
            return None if worst is None else self.figures[worst]
        return self.in_clear

    @property
    def gains(self) -> dict[str, float]:
        """What each attack that has a chance level gains over it, the worst attack first; below 0 luck does better."""
        return {name: gain for name, (gain, _) in self.gains_with_low.items()}

    @property
    def gains_with_low(self) -> dict[str, tuple[float, float]]:
        """The same, each with what the low end of the attack's interval would gain."""
        unnamed = [] if self.in_clear is None or self.in_clear.id in self.figures else [self.in_clear]
        attacks = _attacks([*self.of_kind("risk").values(), *unnamed])
        return {one.id: (gain_of(one), _beyond(one.low, one.chance or 0.0)) for one in attacks}

    @property
    def worst_gain(self) -> float | None:
        """What the worst attack gains over chance, as a share of what was to be gained; 0 if it gains nothing."""
        worst = self.worst_attack
        return None if worst is None else max(gain_of(worst), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        worst = self.worst_attack
        return {
            "measures": {name: measure.to_dict() for name, measure in self.figures.items()},
            "kinds": {name: self.entries[name].kind for name in self.figures},
            "columns": list(self.columns),
            "rows": {"original": self.rows[0], "released": self.rows[1]},
            "worst_attack": None if worst is None else worst.id,
            "in_clear": None if self.in_clear is None else self.in_clear.to_dict(),
            "sanity": None if self.sanity is None else self.sanity.to_dict(),
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "policy": None if self.verdict is None else self.verdict.to_dict(),
        }

    def to_json(self) -> str:
        """The same as text. JSON has no infinity: it is the word "Infinity"."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def to_frame(self) -> Any:
        """One row per figure, as a frame of the kind that was assessed (polars for arrays)."""
        measures = list(self.figures.values())
        known = [self.known(measure.id) for measure in measures]

        def each(*names: str) -> dict[str, list[Any]]:
            return {name: [getattr(measure, name) for measure in measures] for name in names}

        return self.make_frame(
            {
                "measure": list(self.figures),
                "kind": [self.entries[name].kind for name in self.figures],
                **each("value", "low", "high", "chance"),
                "identity": [one for one, _ in known],
                "shuffle": [other for _, other in known],
                "lowest": [m.range[0] for m in measures],
                "highest": [m.range[1] for m in measures],
                **each("better", "meaning", "note"),
            }
        )


def _figures(measure: Measure) -> dict[str, Any]:
    plain_figures = measure.to_dict()
    return {name: plain_figures[name] for name in ("value", "low", "high", "chance")}


def worst_of(risks: Iterable[Measure]) -> Measure | None:
    """What the worst of the attacks gains over chance, as a share of what was to be gained.

    The intruder picks the attack that tells most. Attacks have different chance levels; so what each gains is
    (value - chance) / (1 - chance), 0 for luck and 1 for everything, and the largest counts. The interval is that of
    the attack, which the note names. `membership`, whose area is one half by luck, takes part alike.
    """
    attacks = _attacks(risks)
    if not attacks:
        return None
    worst, chance = attacks[0], attacks[0].chance or 0.0
    low, value, high = (min(max(_beyond(end, chance), 0.0), 1.0) for end in (worst.low, worst.value, worst.high))
    note = f"{worst.id} gains most: {worst.value:.4g} (chance {chance:.4g})"
    return Measure(WORST, value, low, high, 0.0, "low", (0.0, 1.0), WORST_MEANING, note)


def gain_of(attack: Measure) -> float:
    """What an attack gains over chance, as a share of what was to be gained; below 0 luck does better."""
    return _beyond(attack.value, attack.chance or 0.0)


def _attacks(risks: Iterable[Measure]) -> list[Measure]:
    """Those that have a chance level, the one that gains most first."""
    known = [
        m for m in risks if m.id not in NO_SHARES and m.better == "low" and m.range[1] == 1.0 and m.chance is not None
    ]
    return sorted(known, key=gain_of, reverse=True)


def _beyond(value: float, chance: float) -> float:
    return (value - chance) / (1 - chance) if chance < 1 else 0.0
