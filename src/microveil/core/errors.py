"""The one family of errors.

Every message is a single line that says what was wrong, where, what is allowed and what to try.
None of them ever carries a data value or a seed: messages end up in logs and on other people's screens.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MicroveilError(Exception):
    """Anything the user can put right: bad data, a bad parameter, a file that cannot be used.

    The command line turns it into one line on standard error and exit code 2.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(f"{problem}; {hint}" if hint else problem)


class DataError(MicroveilError, ValueError):
    """The table cannot be protected as it is."""


class ParameterError(MicroveilError, ValueError):
    """An option is unknown, out of its range, or does not fit the others."""


class FileError(MicroveilError):
    """A file cannot be read or written."""


class PolicyNotMet(MicroveilError):  # noqa: N818 - a finding, not a fault
    """The figures of a release are not within the limits of the policy, so nothing was written."""


class DisclosureWarning(UserWarning):
    """Columns are released as they are, because an option says so."""


def one_of(choices: Iterable[object]) -> str:
    """`a, b or c`, for messages that list what is allowed."""
    words = [str(choice) for choice in choices]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def did_you_mean(word: str, choices: Iterable[str], limit: int = 12) -> str:
    """A hint that names the nearest choice, or the choices themselves when none is near."""
    known = list(choices)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    shown = known[:limit] + (["..."] if len(known) > limit else [])
    return f"there are: {', '.join(shown)}"
