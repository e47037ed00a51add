"""spark-submit of our applications, in local mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from relaybox.local.java import find_java_home
from relaybox.spark.driver_options import driver_java_options
from tests.support.patience import patience

APPLICATIONS = Path(__file__).parents[2] / "spark_apps"


def spark_submit(
    application: str, *arguments: str, master: str = "local[2]", service_file: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs an application of spark_apps/ to its end, with this test's service file."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({"PGSERVICEFILE": service_file} if service_file else {}),
    }
    command = [
        "spark-submit",
        "--master",
        master,
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        f"spark.driver.extraJavaOptions={driver_java_options()}",
        str(APPLICATIONS / application),
        *arguments,
    ]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience(180), check=False)
