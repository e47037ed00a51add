"""Spark on a machine that has no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from relaybox.local.java import find_java_home
from tests.support.patience import patience

JOB = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
java = session._jvm.System.getProperty("java.version")
total = session.sparkContext.parallelize(range(1000), 4).map(lambda number: number * 2).sum()
print("result", java.split(".")[0], total, session.range(1000).selectExpr("sum(id)").first()[0])
"""


def test_spark_runs_on_the_java_of_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit finishes a job of Python tasks and SQL with the wheel's Java, the one that lacks a module Spark asks for."""
    path = os.environ["PATH"]
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    java_home = find_java_home()
    assert java_home.is_relative_to(sys.prefix)
    application = tmp_path / "job.py"
    application.write_text(JOB)
    environment = {**os.environ, "PATH": path, "JAVA_HOME": str(java_home)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [Path(sys.executable).with_name("spark-submit"), application],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=patience(300),
    )  # fmt: skip
    assert "result 21 999000 499500" in done.stdout.splitlines(), done.stderr[-3000:]
