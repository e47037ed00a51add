"""What a Spark driver may see of the task that starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_AIRFLOW_PREFIXES = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW")


def driver_environment(route_file: Path) -> dict[str, str]:
    """This process's environment, less all that is Airflow's (its connections, keys and metadata database), plus the driver's Python.

    What the deployment set stays: JAVA_HOME, SPARK_HOME, PYSPARK_PYTHON, and a spark-submit that is on the path already.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_AIRFLOW_PREFIXES)}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    environment["PATH"] = _path_with_own_scripts(environment)
    environment["RELAYBOX_CONFIG"] = str(route_file)
    return environment


def _path_with_own_scripts(environment: Mapping[str, str]) -> str:
    """spark-submit of the installed pyspark is beside this interpreter, which need not be on the path."""
    return os.pathsep.join([environment.get("PATH", os.defpath), str(Path(sys.executable).parent)])
