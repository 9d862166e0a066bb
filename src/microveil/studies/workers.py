"""The processes that a study works in: they know nothing of the script that asked for it, and end with it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from microveil.core.errors import DataError

_starting = threading.Lock()


class Worker(SpawnProcess):
    """A process that is started afresh: threads of numeric libraries do not survive a fork.

    Such a process runs the caller's script once more, for what is defined there. Nothing of it is needed here, and a
    script without `if __name__ == "__main__"` would start a study in every worker.
    """

    def start(self) -> None:
        """Start it without the script, and deaf to Ctrl-C, which reaches all processes of a terminal at once."""
        with _starting, _without_main(), _interrupts_held():
            super().start()


class Workers(SpawnContext):
    """Remembers what it has started, so that this can be ended."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[Worker] = []

    def Process(self, *args: Any, **options: Any) -> Worker:  # type: ignore[override]  # noqa: N802 - a class there
        """As the pool asks for one."""
        self.started.append(Worker(*args, **options))
        return self.started[-1]

    def end(self) -> None:
        """At once, whatever they are doing."""
        for worker in self.started:
            if worker.pid is not None:
                worker.terminate()


@contextmanager
def worker_pool(count: int, begin: Callable[..., None], *given: Any) -> Iterator[ProcessPoolExecutor]:
    """A pool whose workers call `begin` first; if the work is broken off, they are ended and not waited for."""
    context = Workers()
    with ProcessPoolExecutor(count, context, begin, given) as pool:
        try:
            yield pool
        except BaseException as error:
            context.end()
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise DataError(
                    "workers: a process ended before its work was done (memory, or classes of your own in the data?)",
                    "use workers=1",
                ) from None
            raise


def begin_worker(parent: int) -> None:
    """One thread each, as there are as many workers as cores; and an end with whoever started it."""
    os.environ["MICROVEIL_THREADS"] = "1"
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A killed study must not leave workers behind that go on for nobody."""
    while os.getppid() == parent:
        threading.Event().wait(1.0)
    os._exit(1)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide where the caller's script is: a new process is told to run what it finds there."""
    told = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: told.pop(name) for name in ("__file__", "__spec__") if name in told}
    told["__spec__"] = None
    try:
        yield
    finally:
        told.pop("__spec__")
        told.update(hidden)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """What is started meanwhile does not hear of Ctrl-C; this process does, afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
