"""The Python of Spark's workers: this one on a local master; else one line that says what to set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_session import java_is_there

PROGRAM = """
import numpy as np, polars as pl, sys
from pyspark.sql import SparkSession
import microveil as mv
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = builder.config("spark.driver.host", "127.0.0.1").config("spark.local.dir", sys.argv[1]).getOrCreate()
cells = np.random.default_rng(1).lognormal(3, 1, (300, 3))
frame = session.createDataFrame(pl.DataFrame(cells, schema=["a", "b", "c"]).to_arrow())
try:
    release = mv.protect_spark(frame, seed=1)
except mv.errors.MicroveilError as error:
    print("refused:", error)
else:
    print("rows:", release.data.count(), release.settings["method"])
"""

WITHOUT_MICROVEIL = """
import runpy, sys

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "microveil":
            raise ModuleNotFoundError(f"No module named '{name}'")

sys.meta_path.insert(0, Absent())
module, sys.argv = sys.argv[2], sys.argv[2:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""As Spark starts a worker: python -m pyspark.daemon pyspark.worker."""


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of a user who has said nothing to Spark, with another Python first in the path."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK")}
    bare = folder / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to("/bin/false")
    path = f"{bare}{os.pathsep}{own['PATH']}"
    own |= {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": path, **environment}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=300, cwd=folder)


@pytest.mark.slow
@pytest.mark.skipif(not java_is_there(), reason="Spark needs Java 17 or newer")
def test_a_local_master_is_given_this_python_and_the_default_method_runs(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stdout.strip() == "rows: 300 veil", done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.skipif(not java_is_there(), reason="Spark needs Java 17 or newer")
def test_workers_without_microveil_are_refused_in_one_line(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f"#!{sys.executable}\n{WITHOUT_MICROVEIL}")
    other.chmod(0o755)
    done = run(tmp_path, PYSPARK_PYTHON=str(other))
    assert done.stdout.startswith("refused: Spark: "), done.stdout + done.stderr[-2000:]
    assert "PYSPARK_PYTHON" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert len(done.stdout.strip().splitlines()) <= 2
