"""Work in processes, which know nothing of the script that started them, and end with it."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from microveil.core.errors import DataError

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")

_starting = threading.Lock()

_task: tuple[Callable[[Any, Any], Any], Any] | None = None
"""What this process does with every item, and what the items share, if it was started to work."""


def run_tasks(
    work: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Sequence[Item],
    workers: int,
    finished: Callable[[int, Result], None],
    seconds_here: float = 0.0,
) -> None:
    """Do `work(shared, item)` for every item, and call `finished` with its number and the result when it is done.

    The work is done in as many processes as `workers` says, to each of which `shared` is sent once; in this process, if
    one is enough, and for the first `seconds_here`: what is done by then needs no processes, which take a CPU second
    each to start. Only a few items wait in the processes: what is not begun need not be called back.
    """
    until, done = time.monotonic() + seconds_here, 0
    while done < len(items) and time.monotonic() < until:
        finished(done, work(shared, items[done]))
        done += 1
    with task_pool(work, shared, min(workers, len(items) - done)) as pool:
        pool(items[done:], lambda number, result: finished(done + number, result))


Run = Callable[..., bool]
"""Takes items, what hears of results, the time on the monotonic clock `until` which there may be work, and from when on
(`begin_until`) none is begun; were all items done?"""


@contextmanager
def task_pool(work: Callable[[Shared, Item], Result], shared: Shared, workers: int) -> Iterator[Run]:
    """What does `work` for one batch of items after the other, as `run_tasks` does, in the same processes."""

    def here(
        items: Sequence[Item],
        finished: Callable[[int, Result], None],
        until: float = math.inf,
        begin_until: float = math.inf,
    ) -> bool:
        for number, item in enumerate(items):
            if time.monotonic() >= min(until, begin_until):
                return False
            finished(number, work(shared, item))
        return True

    if workers <= 1:
        yield here
        return
    with _worker_pool(workers, work, shared) as (pool, end):

        def there(
            items: Sequence[Item],
            finished: Callable[[int, Result], None],
            until: float = math.inf,
            begin_until: float = math.inf,
        ) -> bool:
            rest: Iterator[tuple[int, Item]] = iter(enumerate(items))
            running: dict[Future[Result], int] = {}
            whole = True
            while True:
                if time.monotonic() >= begin_until:
                    waiting = [future for future in running if future.cancel()]
                    whole &= not waiting and next(rest, None) is None
                    rest, running = iter(()), {f: n for f, n in running.items() if f not in waiting}
                for number, item in islice(rest, 2 * workers - len(running)):
                    running[pool.submit(_work_on, item)] = number
                if not running:
                    return whole
                now = time.monotonic()
                next_stop = begin_until if now < begin_until < until else until
                left = None if next_stop == math.inf else max(next_stop - now, 0.0)
                done = wait(running, timeout=left, return_when=FIRST_COMPLETED).done
                if not done and time.monotonic() >= until:
                    end()  # what is not done by now is not waited for
                    return False
                for future in done:
                    finished(running.pop(future), future.result())

        yield there


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
def _worker_pool(count: int, *task: Any) -> Iterator[tuple[ProcessPoolExecutor, Callable[[], None]]]:
    """A pool of workers for a task, and what ends it; if the work is broken off, it is not waited for."""
    context = Workers()
    with ProcessPoolExecutor(count, context, _begin, (task,)) as pool:

        def end() -> None:
            context.end()
            pool.shutdown(cancel_futures=True)  # its thread ends now: it must not close what the interpreter's end uses

        try:
            yield pool, end
        except BaseException as error:
            end()
            if isinstance(error, BrokenProcessPool):
                raise DataError(
                    "workers: a process ended before its work was done (memory, or classes of your own in the data?)",
                    "use workers=1",
                ) from None
            raise


def _begin(task: tuple[Callable[[Any, Any], Any], Any]) -> None:
    """One thread each, as there are as many workers as cores; and an end with whoever started it."""
    global _task
    _task = task
    os.environ["MICROVEIL_THREADS"] = "1"
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _work_on(item: Any) -> Any:
    if _task is None:
        raise RuntimeError("this process was not started to work")
    work, shared = _task
    return work(shared, item)


def _end_with_the_parent() -> None:
    """A killed study must not leave workers behind that go on for nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide where the caller's script is: a new process is told to run what it finds there."""
    main = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.pop("__spec__")
        main.update(hidden)


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
