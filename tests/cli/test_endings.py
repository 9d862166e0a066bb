"""Runs that end early: Ctrl-C, a polite kill, a reader that goes away. With real processes and real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv

COMMAND = [sys.executable, "-m", "microveil"]
STOPPED = "microveil: stopped; nothing was written\n"


def hearing() -> None:
    """Tests may run in the background, where Ctrl-C is ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments: object, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hearing,
        env={**os.environ, **settings},
    )


def wait_until_it_listens(process: subprocess.Popen[str]) -> None:
    """Until the process catches SIGTERM, as Linux tells; before that it is Python that is starting, not we."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    for _ in range(3000):
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("large") / "large.parquet"
    values = np.random.default_rng(1).exponential(size=(1_000_000, 8))  # independent components are found at once
    pl.DataFrame(values, schema=list("abcdefgh")).write_parquet(source)
    return source


@pytest.mark.quick("perturbing-15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", ["reading", "perturbing", "linking", "writing"])
def test_a_signal_stops_the_run_and_leaves_nothing(
    number: signal.Signals, step: str, large: Path, tmp_path: Path
) -> None:
    out, report = tmp_path / "out.csv", tmp_path / "report.html"  # text takes long enough to write
    report.write_text("an older report")
    # The bar tells where the run is; it is shown on what takes itself for a terminal.
    # To link takes a whole run, which the default takes long for; the others interrupt the default.
    method = "pca" if step == "linking" else "veil"
    asked = ("-o", out, "--report", report, "--overwrite", "--method", method)
    process = start("protect", large, *asked, FORCE_COLOR="1", COLUMNS="80")
    assert process.stderr is not None
    said = ""
    while step not in said and (piece := os.read(process.stderr.fileno(), 4096)):
        said += piece.decode()
    process.send_signal(number)
    printed, rest = process.communicate(timeout=60)
    assert step in said
    assert process.returncode == 130
    assert STOPPED in rest
    assert "Traceback" not in said + rest
    assert "Protected" not in printed, "what was found may have been shown, but nothing as done"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"], "no output and no temporary file"
    assert report.read_text() == "an older report"


def test_the_line_is_all_there_is(large: Path, tmp_path: Path) -> None:
    process = start("protect", large, "-o", tmp_path / "out.csv")
    wait_until_it_listens(process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)  # an impatient user
    assert process.communicate(timeout=60) == ("", STOPPED)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_keyboard_interrupt_of_a_library_stops_too(tmp_path: Path) -> None:
    code = (
        "import microveil.cli.shared as shared\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "shared.read_table = interrupted\n"
        "from microveil.cli.main import main\n"
        f"main(['protect', {str(mv.example_file())!r}, '-o', {str(tmp_path / 'out.csv')!r}])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", STOPPED)


@pytest.mark.slow
def test_nothing_stops_the_files_from_taking_their_places(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from microveil.cli.main import main\n"
        "replace = Path.replace\n"
        "def slow(self, target):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return replace(self, target)\n"
        "Path.replace = slow\n"
        f"main(['protect', {str(mv.example_file())!r}, '-o', {str(tmp_path / 'out.csv')!r}, '--quiet'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


COMMANDS = {
    "methods": ["methods", "pca"],
    "methods as json": ["methods", "pca", "--json"],
    "help": ["protect", "--help"],
    "version": ["version"],
    "describe": ["describe", str(mv.example_file())],
    "protect": ["protect", str(mv.example_file()), "-o", "out.csv"],
    "protect as json": ["protect", str(mv.example_file()), "-o", "out.csv", "--json"],
    "demo": ["demo", "--folder", "."],
}


@pytest.mark.quick("version", "methods")
@pytest.mark.parametrize("case", COMMANDS)
def test_a_reader_that_goes_away_changes_nothing(case: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*COMMAND, *COMMANDS[case]], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
    )
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")
    expected = {"protect": 1, "protect as json": 1, "demo": 6}.get(case, 0)
    assert len(list(tmp_path.iterdir())) == expected, "the work was done all the same"


@pytest.mark.slow
def test_a_reader_of_messages_that_goes_away_changes_nothing(large: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ["protect", large, "-o", tmp_path / "out.parquet", "--json", "--method", "pca"]
    environment = {**os.environ, "FORCE_COLOR": "1"}  # so that there is a bar
    result = subprocess.run(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=writing, text=True, env=environment, check=False
    )
    refused = subprocess.run([*COMMAND, "protect", "nix.csv", "-o", "out.csv"], stderr=writing, check=False)
    os.close(writing)
    assert result.returncode == 0
    assert json.loads(result.stdout)["rows"] == 1_000_000
    assert refused.returncode == 2
