"""Run a command beside a Spark cluster of its own: a master and two workers on this machine, on loopback only.

    python scripts/spark_cluster.py python job.py

The command finds the address of the master in MICROVEIL_SPARK_MASTER. Whatever happens to it, the cluster is stopped
and all that it wrote is removed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

WORKERS = 2
SECONDS_TO_START = 60
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
STARTED = {
    MASTER: re.compile(r"Starting Spark master at (spark://\S+)"),
    WORKER: re.compile(r"registered with (master)"),
}


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a master whose workers are there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-cluster-")))  # nobody else reads it
        address = stack.enter_context(_running(folder, "master", MASTER, []))
        for number in range(WORKERS):
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}"), address]
            stack.enter_context(_running(folder, f"worker{number}", WORKER, own))
        yield address


@contextmanager
def _running(folder: Path, name: str, role: str, options: list[str]) -> Iterator[str]:
    """A master or a worker, until the end of the block; what is given is what its log says once it is ready."""
    import pyspark

    home, local = Path(pyspark.__file__).parent, folder / f"{name}-local"
    local.mkdir(mode=0o700)
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(local),
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(home / "bin" / "spark-class"), role, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    log = folder / f"{name}.log"
    with (
        log.open("wb") as file,
        subprocess.Popen([*command, *options], env=environment, stdout=file, stderr=file) as run,
    ):
        try:
            yield _once_it_says(run, log, STARTED[role])
        finally:
            run.terminate()
            run.wait()


def _once_it_says(run: subprocess.Popen[bytes], log: Path, wanted: re.Pattern[str]) -> str:
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end and run.poll() is None:
        if found := wanted.search(log.read_text(encoding="utf-8", errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise SystemExit(f"Spark did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def main() -> int:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    with cluster() as address:
        return subprocess.run(sys.argv[1:], env={**os.environ, "MICROVEIL_SPARK_MASTER": address}).returncode


if __name__ == "__main__":
    sys.exit(main())
