"""How a run ends early: Ctrl-C, a polite kill, a reader of the output that went away. Light, to be loaded first."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

SIGNALS = (signal.SIGINT, signal.SIGTERM)


# Signs that steer a terminal, and those that turn the direction of writing; line ends are not among them.
_STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Stopped(BaseException):
    """Somebody wants the run to end; it may say what was written. Not a KeyboardInterrupt, which typer would take."""


class NotMet(Exception):  # noqa: N818 - a finding, not an error
    """The figures are not within the limits of the policy; what there is to see has been shown."""


def _take_no_notice(*_: Any) -> None:
    """Not SIG_IGN: Python complains when a signal that has just arrived finds itself ignored."""


def _stop(*_: Any) -> None:
    deaf()  # an impatient second signal must not disturb the clearing up
    raise Stopped


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C and a polite kill raise `Stopped`, so that temporary files are removed on the way out."""
    # A signal that is ignored (nohup, a job in the background) stays so.
    before = {number: signal.getsignal(number) for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN}
    _handle(before, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def point_of_no_return() -> Iterator[None]:
    """While files take their places nothing stops; then the work is done, and a signal ends what is left in silence."""
    ours = [number for number in SIGNALS if signal.getsignal(number) is _stop]
    _handle(ours, _take_no_notice)
    try:
        yield
    except BaseException:
        _handle(ours, _stop)
        raise
    _handle(ours, signal.SIG_DFL)


def deaf() -> None:
    """The run is ending already: further signals change nothing."""
    _handle(SIGNALS, _take_no_notice)


def _handle(numbers: Any, handler: Any) -> None:
    for number in numbers:
        signal.signal(number, handler)


def let_go(stream: TextIO) -> None:
    """Nobody reads this stream any more: send what is left nowhere, or Python complains when it closes it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def printable(text: str) -> str:
    """Text for a terminal: names of columns and sheets come from files, and may hold what would steer it."""
    return _STEERING.sub("?", text)


def say(line: str) -> None:
    """One line on standard error, if anybody reads it."""
    try:
        print(f"microveil: {printable(' '.join(line.split()))}", file=sys.stderr, flush=True)
    except OSError:
        let_go(sys.stderr)
