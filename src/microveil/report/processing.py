"""The part of a data-protection impact assessment that a release can fill in by itself; the rest is left to people."""

from __future__ import annotations

from microveil.report.material import Material
from microveil.report.screens import named
from microveil.report.verdict import grouped_warnings, loss_light, percent, risk_light

Line = dict[str, str]
"""A question, what the release answers, and what a person has to add."""


def record_of_processing(material: Material) -> list[Line]:
    """Questions of GDPR Art. 35(7), each with what is known of it and what is not."""
    release, found = material.release, material.assessment
    risk, loss = risk_light(found), loss_light(found, release.kept, material.distances)
    kinds: dict[str, int] = {}
    for kind in release.kinds.values():
        kinds[kind] = kinds.get(kind, 0) + 1
    data = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
    return [
        _line("Purpose", "", "What the release is for, who will use it, on which legal basis."),
        _line(
            "Data",
            f"{release.rows:,} records; columns: {data or len(release.dose) + len(release.labels)}.",
            "Whose data they are, and how sensitive.",
        ),
        _line(
            "Processing",
            f"{release.method} on this machine; nothing was sent anywhere.",
            "Who did it, and who has access to the original.",
        ),
        _line("Necessity", f"Loss {loss.word}. {loss.said}", "Why less (a table, fewer columns) would not do."),
        _line(
            "Risk to persons",
            f"Risk {risk.word}. {risk.said} "
            + (
                f"{percent(release.unique_in_clear)} of the rows are unique on the columns in clear."
                if release.unique_in_clear
                else ""
            ),
            "What intruders know and gain; what harm a success would do.",
        ),
        _line(
            "Measures taken",
            f"Protected: {named([*release.dose, *release.labels]) or 'nothing'}. "
            f"In clear: {named(release.in_clear) or 'nothing'}.",
            "Contracts, access, retention, what happens when somebody is found.",
        ),
        _line(
            "Open points",
            f"{len(grouped_warnings(release))} warnings; see the first page.",
            "What was decided on each.",
        ),
        _line("Decision", "", "Released or not, by whom, when; when it is looked at again."),
    ]


def _line(question: str, known: str, add: str) -> Line:
    return {"question": question, "known": known.strip(), "add": add}
