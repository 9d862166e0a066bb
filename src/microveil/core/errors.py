"""The one family of errors.

Every message is a single line that says what was wrong, where, what is allowed and what to try.
None of them ever carries a data value or a seed: messages end up in logs and on other people's screens.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence


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


def check_column(role: str, name: object, names: Collection[str]) -> str:
    """The name of a column that the `role` needs, or an error if there is none of this name."""
    if str(name) not in names:
        raise ParameterError(f"{role}: there is no column '{name}'", did_you_mean(str(name), names))
    return str(name)


def one_of(choices: Iterable[object]) -> str:
    """`a, b or c`, for messages that list what is allowed."""
    words = [str(choice) for choice in choices]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def some_of(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def did_you_mean(word: str, choices: Iterable[str], limit: int = 12) -> str:
    """A hint that names the nearest choice, or the choices themselves when none is near."""
    known = list(choices)
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there are: {', '.join(known[:limit] + (['...'] if len(known) > limit else []))}"


QUOTES = "'\""
_OPTION = re.compile(r"\b(rules|engine|method|keep|confidential|weight|unit|seed)=(None|True|'[^']*'|\"[^\"]*\")")
_NAMED = {
    "with kinds": "with --kind COLUMN=KIND",
    "(protected_weight)": "(--protected-weight)",
    "(shuffle_rows:": "(--shuffle-rows:",
    "; keep releases it": "; --keep releases it",
    "with keep": "with --keep",
    "with drop": "with --drop",
    "in keep or drop": "in --keep or --drop",
}


def as_typed(text: str) -> str:
    """Advice in the words of the command line: `--rules none` for `rules=None`."""
    for python, typed in _NAMED.items():
        text = text.replace(python, typed)
    text = _OPTION.sub(lambda found: f"--{found[1]} {found[2].strip(QUOTES).lower()}", text)
    text = text.replace(" (overwrite=True)", "").replace("overwrite=True", "--overwrite")
    return re.sub(r"(--[\w-]+ [\w.]+) \(\1\)", r"\1", text)
