"""The Spark driver as a child of the task: what it may see, and that it dies with the task."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1
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


def die_with_parent() -> Callable[[], None]:
    """A `preexec_fn`: Linux kills the child when the thread that started it ends.

    Without it, a killed task leaves a Spark driver behind that goes on writing beside the retry. The protocol survives
    that; the retry would wait for it.
    """
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return before_exec
