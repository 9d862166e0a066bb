"""Long work in a process of its own: with progress, to be cancelled, and able to die without the app.

The process that works is `microveil.app.worker`. One stands ready, its libraries loaded, so that work begins at once;
it does one thing and ends, and the memory that it took is free again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CRASHED = "The work ended unexpectedly, perhaps for want of memory. Nothing was changed: try again, or with less data."
CANCELLED = "You cancelled it. Nothing was changed."

Then = Callable[[dict[str, Any]], None]


@dataclass(repr=False)
class Work:
    """One piece of work: where it is, and what came of it."""

    title: str
    step: str = ""
    share: float | None = None
    began: float = field(default_factory=time.monotonic)
    failed: str = ""
    over: bool = False
    process: subprocess.Popen[str] | None = None

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """How long it will still take, if it goes on as it did; nobody knows at first."""
        if not self.share or self.share < 0.05 or self.seconds < 2:
            return None
        return self.seconds * (1 - self.share) / self.share

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the page that waits."""
        state = {"title": self.title, "step": self.step, "share": self.share, "over": self.over, "failed": self.failed}
        return {**state, "seconds": self.seconds, "left": self.seconds_left}

    def cancel(self) -> None:
        """End it, and whatever processes it has started."""
        if not self.over:
            self.failed, self.over = CANCELLED, True
            if self.process is not None:
                _kill(self.process)


class WorkerPool:
    """Those who work: one stands ready, the others are at it."""

    def __init__(self) -> None:
        self._ready: subprocess.Popen[str] | None = None
        self._all: list[subprocess.Popen[str]] = []
        self._guard = threading.Lock()
        self._stopped = False

    def warm(self) -> None:
        """Have one ready."""
        with self._guard:
            if not self._stopped and (self._ready is None or self._ready.poll() is not None):
                self._ready = self._start()

    def begin(self, title: str, task: Mapping[str, Any], folder: Path, then: Then) -> Work:
        """Start a task in a folder; `then` is called with what came of it, if it comes to an end.

        Args:
            title: what it is called on the page.
            task: what `microveil.app.worker` is to do.
            folder: where it works.
            then: takes the result; called from another thread.
        """
        work = Work(title)
        with self._guard:
            process = self._ready if self._ready is not None and self._ready.poll() is None else self._start()
            self._ready = None
        work.process = process
        threading.Thread(target=self._follow, args=(work, process, task, folder, then), daemon=True).start()
        return work

    def stop(self) -> None:
        """End all of them."""
        with self._guard:
            self._stopped = True
            for process in self._all:
                _kill(process)

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "microveil.app.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries print may quote data
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._all = [*(one for one in self._all if one.poll() is None), process]
        return process

    def _follow(
        self, work: Work, process: subprocess.Popen[str], task: Mapping[str, Any], folder: Path, then: Then
    ) -> None:
        """Tell the process what to do, and listen until it has nothing more to say."""
        found: dict[str, Any] | None = None
        with suppress(OSError, ValueError):
            if process.stdin is not None:
                process.stdin.write(json.dumps({**task, "folder": str(folder)}) + "\n")
                process.stdin.flush()
            for line in process.stdout or ():
                said = json.loads(line)
                found = said if "done" in said or "failed" in said else found
                work.step, work.share = said.get("step", work.step), said.get("share", work.share)
        _kill(process)  # and what it may have started
        if work.over:
            return
        work.failed = CRASHED if found is None else found.get("failed", "")
        if found is not None and "done" in found:
            try:
                then(found["done"])
            except Exception as error:  # of a result nobody foresaw; its message may quote data
                work.failed = f"The result cannot be used ({type(error).__name__})."
        work.over = True
        self.warm()


def _kill(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:  # else its number may be another's by now; it has ended its own on its way out
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        with suppress(OSError, subprocess.TimeoutExpired):
            process.wait(5)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError, ValueError):
                pipe.close()
