"""A job on a cluster: protect a dataset, while the process that runs one of its tasks is killed with all it holds."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from microveil.engines.spark.frames import SparkSource, write_dataset
from microveil.engines.spark.protecting import SparkRequest, protect_spark, spark_table
from microveil.intake.roles import resolve_roles
from microveil.methods import method_named

sys.path.insert(0, str(Path(__file__).parent.parent))
from engines.spark_session import session


def parent_of(process):
    """The process that started it."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def killing_executor(of, marker, parent_of):
    """A row map that, the first time, kills the executor around it: the parent of the parent of this process."""

    def once(cells, rows):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return of(cells, rows)
        os.kill(parent_of(os.getppid()), signal.SIGKILL)
        os._exit(1)

    return once


def main(folder):
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    spark = session(os.environ["MICROVEIL_SPARK_MASTER"], folder / "driver", **memory)
    source = SparkSource.opened(folder / "in", spark)
    roles = resolve_roles(source.numeric, confidential=["a.b", "b", "c"], public=None, strata=None, weight=None)
    release = protect_spark(method_named("pca").plan({}), source, roles, SparkRequest(rules=None, seed=7))
    by_value = parent_of.__code__
    dying = killing_executor(release.outcome.released, folder / "killed", type(parent_of)(by_value, {"Path": Path}))
    data = source.released(spark_table(release.intake), replace(release.outcome, released=dying))
    write_dataset(data, str(folder / "out"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
