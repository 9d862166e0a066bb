"""Windows and macOS lack some names that Linux has, and Windows renames no file that is open: hidden here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from microveil.cli import first_steps
from microveil.core import threads
from microveil.storage import atomic
from microveil.studies import workers
from microveil.workflow import protecting

ONLY_ELSEWHERE = {
    os: ("getuid", "chown", "killpg", "getpgrp", "sched_getaffinity", "sysconf", "O_NOFOLLOW", "fchmod"),
    signal: ("pthread_sigmask", "SIGKILL"),
}


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for module, names in ONLY_ELSEWHERE.items():
        for name in names:
            monkeypatch.delattr(module, name, raising=False)


def test_files_appear_whole_where_no_open_file_is_renamed(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: set[int] = set()
    closing, opening = os.close, atomic.tempfile.mkstemp

    def made(*args: object, **options: object) -> tuple[int, str]:
        handle, name = opening(*args, **options)
        opened.add(handle)
        return handle, name

    def renamed(path: Path, target: Path) -> None:
        assert not opened, "Windows refuses to rename it"
        os.replace(path, target)  # noqa: PTH105 - what is replaced here calls it

    monkeypatch.setattr(atomic.tempfile, "mkstemp", made)
    monkeypatch.setattr(os, "close", lambda handle: (opened.discard(handle), closing(handle))[1])
    monkeypatch.setattr(Path, "replace", renamed)
    target = tmp_path / "out.csv"
    for text in ("new", "replaced"):
        with atomic.atomic_target(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
        assert target.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [target]


def test_cores_memory_and_signals_have_an_answer(windows: None) -> None:
    assert threads.worker_count() >= 1
    assert first_steps.findings()["memory_gb"] is None
    assert protecting._free_memory() > 0
    with workers._interrupts_held():
        pass


HIDDEN = """
import os, signal, sys
sys.modules["fcntl"] = None
for module, names in {os: OF_OS, signal: OF_SIGNAL}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from microveil.cli.main import main
main(sys.argv[1:])
"""


def test_the_command_line_runs_without_them(tmp_path: Path) -> None:
    script = HIDDEN.replace("OF_OS", repr(ONLY_ELSEWHERE[os])).replace("OF_SIGNAL", repr(ONLY_ELSEWHERE[signal]))
    for words in (
        ["example", "firms.csv"],
        ["protect", "firms.csv", "-o", "out.csv", "--method", "pca", "--drop", "region,industry"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").exists()


def test_every_file_is_read_and_written_in_an_encoding_that_is_named() -> None:
    """What Windows takes for granted is not UTF-8."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--preview", "--select", "PLW1514", "--quiet", "src"],
        capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
