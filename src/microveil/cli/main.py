"""The command line: `microveil protect | run | assess | describe | methods | measures | mos | table | demo | version`.

Nothing is decided here: commands translate what is typed, call what does the work, and show what it says. Results go to
standard output,
progress and messages to standard error. Exit codes: 0 done, 1 the policy is not met, 2 bad input or usage, 3 an
internal fault, 130 stopped.
"""

from __future__ import annotations

import gc
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from microveil.cli.endings import NotMet, Stopped, deaf, let_go, say, stoppable
from microveil.core.errors import DisclosureWarning, MicroveilError, as_typed

COLLECTED = 50_000
"""New objects, less those gone, after which Python looks for garbage that refers to itself; by default 700."""

DONE, NOT_MET, BAD_INPUT, FAULT, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run, and turn whatever goes wrong into one line and an exit code."""
    try:
        with stoppable(), _seldom_collecting(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DisclosureWarning)  # it is among the notes
            code = _run(sys.argv[1:] if arguments is None else arguments)
    except Stopped:  # as soon as signals are listened to, before anything ran
        code = _stopped()
    if arguments is None:
        gc.freeze()  # the process ends: to look for garbage once more would take half a second
    sys.exit(code)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Libraries make a million objects that stay. To look for garbage among them so often takes a tenth of a run."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTED, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run(arguments: list[str]) -> int:
    try:
        # Here, because they take half a second, in which one can change one's mind too.
        from microveil.cli.commands import app_for

        code = app_for(arguments)(arguments or ["--help"], prog_name="microveil", standalone_mode=False)
        if sys.stdout is not None:  # closed by the caller
            sys.stdout.flush()
    except Stopped as stopped:
        return _stopped(str(stopped))
    except SystemExit as ended:  # typer's answer to a reader that went away
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        let_go(sys.stdout)
        return DONE  # results are printed last, so the work is done
    except BrokenPipeError:
        let_go(sys.stdout)
        return DONE
    except Exception as error:
        return _failed(error)
    return _stopped() if code == INTERRUPTED else DONE  # typer's answer to a KeyboardInterrupt, which libraries raise


def _stopped(written: str = "") -> int:
    deaf()
    say(f"stopped; {written or 'nothing was written'}")
    return INTERRUPTED


def _failed(error: Exception) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, NotMet):
        say(str(error))
        return NOT_MET
    if isinstance(error, MicroveilError):
        say(as_typed(str(error)))
        return BAD_INPUT
    if isinstance(error.__cause__, KeyboardInterrupt):  # as older versions of typer pass it on
        return _stopped()
    if isinstance(error, OSError):  # files have errors of their own by now: this is standard output, on a full disk
        say(f"the result cannot be printed ({(error.strerror or 'unknown').lower()}); send it elsewhere")
        return BAD_INPUT
    if isinstance(error, MemoryError):
        say("not enough memory; use fewer columns or a machine with more")
        return BAD_INPUT
    if callable(usage := getattr(error, "format_message", None)):  # typer's own family, whatever its version
        command = getattr(getattr(error, "ctx", None), "command_path", "microveil")
        say(f"{usage().rstrip('.')}; see `{command} --help`")
        return BAD_INPUT
    # The message of an unforeseen error may quote data, so only its kind and place are shown.
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    say(f"internal fault: {type(error).__name__} at {where}; please report it with the command you ran")
    return FAULT


if __name__ == "__main__":
    main()
