"""Sessions of Spark: the one there is, and one of our own beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from microveil.core.errors import FileError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession


def the_session() -> SparkSession:
    """The session there is; else one whose workers run this Python, and which shows nothing to the network."""
    from pyspark.sql import SparkSession

    there = SparkSession.getActiveSession()
    if there is not None:
        return there
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # where pyspark looks, and nowhere else
    builder = SparkSession.builder.appName("microveil")
    master = os.environ.get("MICROVEIL_SPARK_MASTER")
    builder = builder if master is None else builder.master(master)
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def in_own_session(frame: DataFrame) -> DataFrame:
    """The frame in a session of our own, whose settings are for records and leave those of the user alone."""
    session = frame.sparkSession.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    name = f"microveil_{uuid4().hex}"
    frame.createOrReplaceGlobalTempView(name)
    try:
        return session.table(f"global_temp.{name}")
    finally:
        session.catalog.dropGlobalTempView(name)


def check_workers(session: SparkSession) -> None:
    """See to it that the workers' Python has microveil: that of a local master is this one, unless another is named.

    A worker that has it not would end the first job with the traces of two languages; so one small job asks.
    """
    from pyspark.errors import PySparkException

    context = session.sparkContext
    named = "PYSPARK_PYTHON" in os.environ or context.getConf().get("spark.pyspark.python") is not None
    if (context.master or "").startswith("local") and not named:
        context.pythonExec = sys.executable
    try:
        with _unlogged(context):
            session.range(1).mapInArrow(_as_it_came, "id long").collect()  # type: ignore[arg-type]  # as in on_workers
    except PySparkException as error:
        said = str(error)
        missing = "the workers' Python has no microveil" if "No module named" in said else ""
        if not missing and ("PYTHON_VERSION_MISMATCH" in said or "different minor version" in said):
            missing = "the workers have another version of Python than the driver"
        if not missing and "Cannot run program" in said:
            missing = "the workers do not find the Python that they are told to use"
        if not missing:
            raise
        raise FileError(
            f"Spark: {missing}",
            "install microveil on every worker, and set PYSPARK_PYTHON (or spark.pyspark.python) to the path of the "
            "Python that has it before the session starts",
        ) from None


def _as_it_came(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows as they are: a worker has to import this module to run it."""
    yield from batches


@contextmanager
def _unlogged(context: SparkContext) -> Iterator[None]:
    """Without Spark's log, which would tell of a failure that is about to be told in one line."""
    jvm: Any = context._jvm
    # Where nobody has set a level, Spark shows no more than this one, whatever the logger would say.
    shown = getattr(getattr(jvm.org.apache.spark.internal, "Logging$"), "MODULE$").sparkShellThresholdLevel()
    level = str((shown or jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel()).toString())
    context.setLogLevel("OFF")
    try:
        yield
    finally:
        context.setLogLevel(level)
