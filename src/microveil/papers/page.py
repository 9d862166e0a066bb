"""One page for the five papers: a verdict on every table and figure, how many of its lines say what, and by which rule.

No count stands without its rule: what each verdict means is on the page, and so is what every line was held to.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from microveil.papers.published import Tolerance
from microveil.papers.sources import PRINTED
from microveil.papers.verdicts import AGREES, DIFFERS, MISPRINT, NOT_PRINTED, NOT_RUN, SAME_SIZE, Reproduction

PROVEN, CANNOT, NOTHING = "misprint (proven)", "cannot be run", "nothing to compare"

MEANINGS = {
    DIFFERS: "a line differs, or is of the same size only",
    CANNOT: "no line differs, and some could not be run: what is missing is said",
    PROVEN: "all lines agree, but for printed figures that others of the paper prove wrong",
    AGREES: "all lines agree",
    NOTHING: "it has neither figures nor a claim: a diagram, a list, an algorithm",
}
"""What a table or figure is called; the first that holds."""

LINES = {
    AGREES: "the difference is within what the rule allows",
    SAME_SIZE: "within a factor of two, which other methods would keep, too: no agreement",
    DIFFERS: "it is not; a reason that the remark gives is a conjecture, unless it says how it is known",
    MISPRINT: "others of the paper's figures prove the printed one wrong, and ours is what they say",
    NOT_RUN: "a file, a package or a picture is missing",
}
"""What a line is called; those that have no printed figure or claim are not counted."""


@dataclass(frozen=True)
class PageRow:
    """A table or figure: `counts` of lines by verdict, `missing` what it would take, `rules` what lines are held to.

    `ours` has figures of a picture without numbers that are worth a table of their own, `notes` how they are made.
    """

    paper: str
    place: str
    id: str
    verdict: str
    counts: dict[str, int]
    missing: Sequence[str] = ()
    rules: Sequence[str] = ()
    ours: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_markdown(self) -> Iterator[str]:
        """Lines of a page about our figures; none, if there is no table of them."""
        if self.ours:
            columns = list(next(iter(self.ours.values())))
            yield from ["", f"## {self.paper}, {self.place}: ours (`{self.id}`)", ""]
            yield from _table(
                [["", *columns], *([row, *map("{:.4g}".format, of.values())] for row, of in self.ours.items())]
            )
            yield from ["", *(f"- {note}." for note in self.notes)]


@dataclass(frozen=True, repr=False)
class Page:
    """Every table and figure of the papers."""

    rows: Sequence[PageRow]
    about: str = ""

    def __repr__(self) -> str:
        return f"<Page of {len(self.rows)} tables and figures: {_said(self.verdicts)}>"

    @property
    def verdicts(self) -> dict[str, int]:
        """How many tables and figures have which verdict."""
        return dict(Counter(row.verdict for row in self.rows))

    @property
    def lines(self) -> dict[str, int]:
        """How many lines have which verdict, of all tables and figures."""
        return {word: sum(row.counts.get(word, 0) for row in self.rows) for word in LINES}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        meanings = {"tables": MEANINGS, "lines": LINES}
        counts = {"verdicts": self.verdicts, "lines": self.lines}
        return {"about": self.about, **counts, "meanings": meanings, "rows": [vars(row) for row in self.rows]}

    def to_markdown(self) -> str:
        """The page as text."""
        rules = list(dict.fromkeys(rule for row in self.rows for rule in row.rules))
        numbers = {rule: str(number) for number, rule in enumerate(rules, start=1)}
        heads = ["paper", "table or figure", "verdict", *LINES, "rules", "what is missing"]
        body = [
            [row.paper, f"{row.place} (`{row.id}`)" if row.id else row.place, row.verdict]
            + [str(row.counts.get(word, "")) for word in LINES]
            + [", ".join(numbers[rule] for rule in row.rules), "; ".join(row.missing)]
            for row in self.rows
        ]
        return "\n".join(
            [
                "# The five papers on one page",
                "",
                *([self.about, ""] if self.about else []),
                f"Tables and figures: {_said(self.verdicts)}. Their lines: {_said(self.lines)}.",
                "",
                *_table([heads, *body]),
                *(line for row in self.rows for line in row.to_markdown()),
                "",
                "## Verdicts and rules",
                "",
                "A table or figure is called by the first of these that holds:",
                "",
                *(f"- **{word}**: {meaning}." for word, meaning in MEANINGS.items()),
                "",
                "A line, which is a printed figure or a claim of the text, is called:",
                "",
                *(f"- **{word}**: {meaning}." for word, meaning in LINES.items()),
                "",
                "The rules that lines are held to, by number:",
                "",
                *(f"{number}. {rule}." for rule, number in numbers.items()),
                "",
            ]
        )


def _table(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Markdown of a head and rows."""
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    yield from [head, f"| {' | '.join(['---'] * len(lines[0]))} |", *rows]


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def page_of(found: Sequence[Reproduction], about: str = "") -> Page:
    """The page of these tables and figures, and of those that are not made again, in the order of the papers."""
    made: dict[str, list[PageRow]] = {}
    for one in found:
        made.setdefault(one.entry.paper, []).append(_row(one))
    for row in _not_made():
        if row.paper in made:
            made[row.paper].append(row)
    return Page([row for rows in made.values() for row in rows], about)


def _row(found: Reproduction) -> PageRow:
    entry = found.entry
    counts = {word: count for word, count in found.verdicts.items() if word in LINES}
    reasons = [line.verdict.partition(": ")[2] for line in found.lines if line.verdict.startswith(NOT_RUN)]
    judged = {(line.row, line.figure) for line in found.lines if not line.verdict.startswith((NOT_RUN, NOT_PRINTED))}
    rules: list[Tolerance] = [one.tolerance for one in entry.printed if (one.row, one.figure) in judged]
    ours: dict[str, dict[str, float]] = {}
    for line in found.lines:
        if line.figure in entry.on_page and line.ours is not None:
            ours.setdefault(line.row, {})[line.figure] = line.ours
    return PageRow(
        entry.paper,
        entry.place,
        entry.id,
        _verdict(counts),
        counts,
        list(dict.fromkeys(reasons)),
        list(dict.fromkeys(rule.reason for rule in rules)),
        ours,
        list(found.notes) if ours else [],
    )


def _verdict(counts: dict[str, int]) -> str:
    if counts.get(DIFFERS) or counts.get(SAME_SIZE):
        return DIFFERS
    if counts.get(NOT_RUN) or not counts:
        return CANNOT
    return PROVEN if counts.get(MISPRINT) else AGREES


def _not_made() -> Iterator[PageRow]:
    """What else the papers have: `missing` says what it would take, `holds` that there is nothing to run."""
    for path in sorted(PRINTED.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        for other in content.get("other", []):
            verdict = CANNOT if "missing" in other else NOTHING
            yield PageRow(content["paper"], other["place"], "", verdict, {}, [other.get("missing", other.get("holds"))])
