"""What the reports of a release are made of: both tables, the audit of the rules, fingerprints and files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.assessment import Assessment
from microveil.core.dependence import LinearRule
from microveil.core.domain import Domain
from microveil.core.errors import MicroveilError
from microveil.core.ratios import RatioRule
from microveil.core.results import Release
from microveil.core.table import Matrix
from microveil.data.frames import open_frame
from microveil.data.pair import pair_up

if TYPE_CHECKING:
    from microveil.report import Audit, Compared, File, Material

HOLDS = 1e-9
"""Share of the size of its terms by which a sum may be off and still holds: files are written in decimals."""


@dataclass(frozen=True, repr=False, eq=False)
class Reporter:
    """Writes the reports of one release.

    It knows the original, for the figures of before and after. A release that is stored or sent leaves it behind: a
    file of what is released must not hold what is not.
    """

    original: Any
    summary: str
    reference: str
    rules: Sequence[LinearRule | RatioRule]
    domains: Sequence[Domain]
    fingerprint: Callable[[Any], str]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "original": None}

    def __call__(
        self,
        release: Release,
        path: str | PathLike[str],
        audience: str,
        assessment: Assessment | None = None,
        study: Compared | None = None,
        *,
        beside: Path | None = None,
        files: Mapping[str, File] | None = None,
        measured: str = "",
    ) -> None:
        """Write a report and its JSON twin, which goes `beside` it unless another place is named.

        `files` are the files of the original and of the release, `measured` a word on what was measured.
        """
        from microveil.report import release_texts, twin, write_texts

        beside = twin(Path(path)) if beside is None else beside  # a wrong name is told before the work
        material = self._material(release, assessment, study, files or {}, measured)
        write_texts(release_texts(material, audience), Path(path), beside)

    def _material(
        self,
        release: Release,
        assessment: Assessment | None,
        study: Compared | None,
        files: Mapping[str, File],
        measured: str,
    ) -> Material:
        from microveil.report import Material

        fingerprints = {"released": self.fingerprint(release.data)}
        material = Material(
            release=release,
            summary=self.summary,
            reference=self.reference,
            assessment=assessment,
            measured=measured,
            study=study,
            fingerprints=fingerprints,
            files=files,
        )
        if self.original is None:
            return material
        material = replace(material, fingerprints={**fingerprints, "original": self.fingerprint(self.original)})
        try:
            both = pair_up(
                open_frame(self.original),
                open_frame(release.data),
                confidential=release.settings["confidential"],
                public=None,
                rules=release.settings["rules"],
            )
        except MicroveilError as error:
            return replace(material, absent=f"the two files cannot be compared: {error.problem}")
        audits = self._audits(both.names, both.original, both.released)
        return replace(material, names=both.names, before=both.original, after=both.released, audits=audits)

    def _audits(self, names: Sequence[str], before: Matrix, after: Matrix) -> list[Audit]:
        """In how many rows each rule does not hold, and how many values a column could not have, before and after."""
        from microveil.report import Audit

        found = [
            Audit(rule.sentence(names), *(_broken(rule, table.columns) for table in (before, after)))
            for rule in self.rules
        ]
        for name, domain, old, new in zip(names, self.domains, before.columns, after.columns, strict=False):
            said = _in_words(domain)
            if said:
                found.append(Audit(f"{name}: {said}", domain.outside(old), domain.outside(new)))
        # What most rows break is no rule of the file, but a formula that a column was rebuilt by.
        return [audit for audit in found if 2 * audit.before <= before.shape[0]]


def file_identity(path: Path, name: str) -> File:
    """A file by a name and the hash of its bytes."""
    from microveil.report import File

    with path.open("rb") as stream:
        return File(name, hashlib.file_digest(stream, "sha256").hexdigest())


def _broken(rule: LinearRule | RatioRule, columns: Sequence[Array]) -> int:
    if isinstance(rule, RatioRule):
        return rule.broken(columns)
    value, expected = columns[rule.column], rule.rebuilt(columns)
    size = np.abs(value) + np.abs(rule.constant) + sum(np.abs(c * columns[j]) for j, c in rule.terms.items())
    return int(np.count_nonzero(np.abs(value - expected) > HOLDS * size))  # False where a cell is missing


def _in_words(domain: Domain) -> str:
    ends = (("at least", domain.minimum), ("at most", domain.maximum), ("in steps of", domain.step))
    return ", ".join(f"{word} {end:g}" for word, end in ends if end is not None)
