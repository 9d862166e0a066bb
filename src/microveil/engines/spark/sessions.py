"""Sessions of Spark: the one there is, and one of our own beside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
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
