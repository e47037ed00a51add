"""Spark's classes, loaded once into a file that each JVM of the tests maps: `python -m tests.support.shared_classes FILE`.

Loading classes is most of what a short Spark application does: with the file it takes 5.2 CPU seconds, without 7.5; the suite starts
about 30 of them. A JVM that the file does not fit, of another version or class path, starts without it and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

from relaybox.local.java import find_java_home
from relaybox.spark.driver_options import driver_java_options

FILE = Path(sys.prefix) / ".spark-classes.jsa"
OPTIONS = "SPARK_SUBMIT_OPTS"
"""The environment variable in which spark-submit looks for options of every JVM that it becomes."""

_APPLICATION = """
from pyspark import SparkContext
context = SparkContext()
assert context.parallelize(range(4), 2).mapPartitions(lambda numbers: [sum(numbers)]).collect() == [1, 5]
context.stop()
"""


def share_classes(environment: MutableMapping[str, str], file: Path = FILE) -> None:
    """Every Spark application with this environment maps the file, if it was made."""
    if file.exists() and OPTIONS not in environment:
        environment[OPTIONS] = f"-XX:SharedArchiveFile={file} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make_file(file: Path) -> None:
    """Makes the file anew, by an application that runs to its end."""
    python = sys.executable
    environment = {**os.environ, "JAVA_HOME": str(find_java_home()), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    with tempfile.TemporaryDirectory() as directory:
        application, made = Path(directory, "start_and_stop.py"), Path(directory, "classes.jsa")
        application.write_text(_APPLICATION, encoding="utf-8")
        environment[OPTIONS] = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
        done = subprocess.run(
            [
                *(Path(python).with_name("spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
                *("--conf", f"spark.driver.extraJavaOptions={driver_java_options()}", application),
            ],
            env=environment,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(f"Spark could not run to make {file}:\n{done.stdout}{done.stderr[-3000:]}")
        staged = file.with_suffix(".new")
        staged.write_bytes(made.read_bytes())
        staged.replace(file)  # JVMs that have mapped the old one keep it


if __name__ == "__main__":
    make_file(Path(sys.argv[1]).absolute())
