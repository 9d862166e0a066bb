"""What the reports of a release are made of: both tables, the audit of the rules, fingerprints and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microveil.assessment.pairing import Pair, pair_up
from microveil.core.errors import MicroveilError, ParameterError
from microveil.io.frames.dataframes import Frame, fingerprint, open_frame
from microveil.io.frames.reorder import with_rows
from microveil.options import Assess
from microveil.release.recipe import file_hash
from microveil.release.release import Audit, Release
from microveil.rules.column_rules import Rule
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule
from microveil.rules.orders import find_orders, implied_orders, of_one_measure

if TYPE_CHECKING:
    from microveil.report import File, Material

NOT_PRIVATE = "figures of the original would not be private"


@dataclass(frozen=True, repr=False, eq=False)
class Reporter:
    """Writes the reports of one release.

    It knows the original, for the figures of before and after. A release that is stored or sent leaves it behind: a
    file of what is released must not hold what is not.
    """

    original: Any
    summary: str
    reference: str
    rules: Sequence[Rule]
    domains: Sequence[Domain]
    codes: Mapping[str, tuple[float, ...]]
    """Special codes of the protected columns, as the intake found them."""

    _paired: list[Any] = field(default_factory=list, init=False)
    """The released table that was paired last, and its pair."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "original": None, "_paired": []}

    def pair(self, release: Release) -> Pair:
        """The protected columns of the original and of the release; made once for a released table."""
        if not self._paired or self._paired[0] is not release.data:
            original, released = (open_frame(table) for table in (self.original, in_file_order(release)))
            both = pair_up(
                original,
                released,
                Assess(
                    confidential=[*release.dose, *release.labels],
                    rules=release.settings["rules"],
                    weight=release.settings.get("weight"),
                ),
                order_known=True,
                codes=self.codes,
                kinds=release.kinds,
                in_clear=release.in_clear,
            )
            self._paired[:] = [release.data, both, released]
        found: Pair = self._paired[1]
        return found

    def __call__(self, release: Release, pages: Mapping[str, tuple[Path, Path | None]], **extras: Any) -> None:
        """Write reports, each with its JSON twin.

        Args:
            release: the release.
            pages: by audience, where the page and its twin go; None puts the twin next to the page.
            **extras: what the caller adds to the material: `assessment`, `study`, `files`, `measured`, `options`.
        """
        from microveil.report import release_texts, twin, write_texts

        places = {of: (page, data or twin(page)) for of, (page, data) in pages.items()}  # before the work
        material = self._material(release, extras)
        for audience, (page, data) in places.items():
            write_texts(release_texts(material, audience), page, data, private=audience == "internal")

    def _released(self, release: Release) -> Any:
        """The released table; opened already, if it was paired and its rows are where they were."""
        opened = self._paired and self._paired[0] is release.data and release.order is None
        return self._paired[2] if opened else held(release)

    def material(self, release: Release) -> Material:
        """What a first screen shows: all but what has to be read of every cell for it."""
        return self._material(release, {}, fingerprinted=False)

    def _material(self, release: Release, extras: Mapping[str, Any], *, fingerprinted: bool = True) -> Material:
        from microveil.report import Material

        fingerprints = {"released": fingerprint(self._released(release))} if fingerprinted else {}
        material = Material(release, self.summary, self.reference, fingerprints=fingerprints, **extras)
        if release.ledger is not None:
            material = replace(material, absent=NOT_PRIVATE)
        if self.original is None:
            return material
        if fingerprinted:
            material = replace(material, fingerprints={**fingerprints, "original": fingerprint(self.original)})
        try:
            both = self.pair(release)
        except MicroveilError as error:
            return replace(material, absent=f"the two files cannot be compared: {error.problem}")
        material = replace(material, labels=both.labels)
        if not both.names:
            return replace(material, absent="only labels are protected, and this picture is of numbers")
        return replace(
            material, names=both.names, before=both.original, after=both.released, audits=self._audits(release, both)
        )

    def of_both(self, data: Any, names: Sequence[str], first: Release, second: Release | None) -> Reporter:
        """The writer of a release that is made of two, whose columns are some of `names` each."""
        rules: list[Rule] = []
        codes: dict[str, tuple[float, ...]] = {}
        domains = dict.fromkeys(names, Domain())
        for release in (first, second) if second is not None else (first,):
            of, writer = list(release.dose), release.writer
            if isinstance(writer, Reporter):
                numbers = {number: list(names).index(name) for number, name in enumerate(of)}
                rules += [rule.renumbered(numbers) for rule in writer.rules]
                domains |= dict(zip(of, writer.domains, strict=False))
                codes |= writer.codes
        return replace(self, original=data, rules=rules, domains=list(domains.values()), codes=codes)

    def compared_with(self, original: Any) -> Reporter:
        """The writer of a release that is compared with another table than the one that it was made of."""
        return replace(self, original=original)

    def audits(self, release: Release) -> list[Audit] | None:
        """What became of the rules; None where there is no original, or none that can be compared."""
        try:
            return None if self.original is None else self._audits(release, self.pair(release))
        except MicroveilError:
            return None

    def _audits(self, release: Release, both: Pair) -> list[Audit]:
        """In how many rows each rule does not hold, and how many values a column could not have, before and after."""
        names, before, after = both.names, both.original, both.released
        orders: list[Rule] = []
        whole = before.shape[0] == release.rows  # in a sample too many would be found
        if release.settings["rules"] == "infer" and whole:
            sums = [rule for rule in self.rules if isinstance(rule, LinearRule)]
            orders += of_one_measure(before, find_orders(before, implied_orders(before, sums)), names)
        found = []
        for rule in [*self.rules, *orders]:
            audit = Audit(rule.sentence(names), *(rule.broken(table.columns) for table in (before, after)))
            # What most rows break is no rule of the file, if nobody declared it, but a formula to rebuild a column by.
            formula = isinstance(rule, LinearRule) and not rule.exact
            if not formula or 2 * audit.before <= before.shape[0]:
                found.append(audit)
        for name, domain, old, new in zip(names, self.domains, before.columns, after.columns, strict=False):
            said = _in_words(domain)
            if said:
                found.append(Audit(f"{name}: {said}", domain.outside(old), domain.outside(new)))
        return found


def pair_of(release: Release) -> tuple[Pair, Frame]:
    """The original and the released columns of a release, and the frame of the original (of a sample of its rows)."""
    original = original_of(release)
    return release.writer.pair(release), original  # type: ignore[attr-defined]  # a Reporter: it has an original


def original_of(release: Release) -> Frame:
    """The frame of the original, or of a sample of its rows."""
    writer = release.writer
    if not isinstance(writer, Reporter) or writer.original is None:
        raise ParameterError("the release was stored without its original", "use assess(original, release)")
    return open_frame(writer.original)


def in_file_order(release: Release) -> Any:
    """The released table with its rows where they were in the original."""
    return held(release) if release.order is None else with_rows(held(release), np.argsort(release.order))


def held(release: Release) -> Any:
    """The released table, or a sample of its rows where it is a file too large to be held."""
    return release.data if release.sample is None else release.sample[1]


def file_identity(path: Path, name: str) -> File:
    """A file by a name and the hash of its bytes."""
    from microveil.report import File

    return File(name, file_hash(path))


def _in_words(domain: Domain) -> str:
    ends = (("at least", domain.minimum), ("at most", domain.maximum), ("in steps of", domain.step))
    return ", ".join(f"{word} {end:g}" for word, end in ends if end is not None)
