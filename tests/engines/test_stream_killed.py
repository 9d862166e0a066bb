"""A process that protects a file in blocks is killed, or another works beside it: nothing is left, nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv


def amounts(path: Path, rows: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    sales = rng.lognormal(3, 1, rows)
    costs = sales * rng.uniform(0.5, 1, rows)
    pl.DataFrame({"sales": sales, "costs": costs, "far": 1e6 + rng.normal(size=rows)}).write_parquet(path)


PROGRAM = """
import sys, time
import microveil as mv

def stop(step, share):
    print(step, flush=True)
    if step == sys.argv[3]:
        time.sleep(60)

mv.protect_file(sys.argv[1], sys.argv[2], sys.argv[4], seed=1, engine="stream", memory="100MB", progress=stop)
"""
MOMENTS = [
    ("pca", "reading the file"),
    ("pca", "looking for rules"),
    ("pca", "perturbing components"),
    ("pca", "writing the file"),
    ("veil", "arranging values"),
]


@pytest.mark.quick("pca-perturbing components", "veil-*")
@pytest.mark.parametrize(("method", "moment"), MOMENTS)
def test_a_kill_leaves_no_output_and_no_readable_data(tmp_path: Path, method: str, moment: str) -> None:
    amounts(tmp_path / "in.parquet", 100_000 if method == "pca" else 6_000)
    target = tmp_path / "out" / "released.parquet"
    target.parent.mkdir()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "in.parquet"), str(target), moment, method]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert moment in (line.strip() for line in process.stdout)
        # While it runs there is one file, which only its owner can read; the others have no name.
        assert [path.stat().st_mode & 0o077 for path in target.parent.iterdir()] == [0]
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not target.exists()
    mv.protect_file(tmp_path / "in.parquet", target, "pca", seed=1, engine="stream")
    assert [path.name for path in target.parent.iterdir()] == ["released.parquet"]


@pytest.mark.slow
def test_what_another_process_is_writing_is_not_swept_away(tmp_path: Path) -> None:
    amounts(tmp_path / "in.parquet")
    arguments = [str(tmp_path / "in.parquet"), str(tmp_path / "one.parquet"), "looking for rules", "pca"]
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert arguments[2] in (line.strip() for line in process.stdout)
        before = {path.name for path in tmp_path.iterdir()}
        mv.protect_file(tmp_path / "in.parquet", tmp_path / "two.parquet", "pca", seed=1, engine="stream")
        assert {path.name for path in tmp_path.iterdir()} == before | {"two.parquet"}
        process.kill()
