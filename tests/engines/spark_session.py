"""A Spark session for tests: quiet, on loopback, its files in a folder of its own."""

import os
import shutil
import subprocess
import sys

import pytest


def java_is_there() -> bool:
    """Is there a Java that Spark runs on?"""
    java = shutil.which("java") if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java"
    if java is None or not os.access(java, os.X_OK):
        return False
    said = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True).stderr
    version = next((line.split("=")[1] for line in said.splitlines() if "java.specification.version" in line), "0")
    return version.strip().isdecimal() and int(version) >= 17


def session(master, folder, **settings):
    """A session; `settings` have underscores in the place of dots."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if not java_is_there():
        pytest.skip("Spark needs Java 17 or newer")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("microveil tests")
    fixed = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        # It lives for seconds: to compile its code thoroughly would take longer than to run it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in {**fixed, **settings}.items():
        builder = builder.config(name, value)
    opened = builder.getOrCreate()
    opened.sparkContext.setLogLevel("OFF")
    return opened
