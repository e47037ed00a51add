"""Options of a Spark driver's JVM, wherever it is started: by Airflow, or by the benchmark."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def driver_java_options() -> str:
    """Options of a JVM that schedules and moves no row.

    Its start is most of what it does: the quick compiler and the simple collector take 7 CPU seconds for it, the defaults 13.
    The log has warnings and errors of Spark only: what a run tells is batches, counts and rates.
    """
    logging = Path(str(resources.files("relaybox"))) / "spark" / "log4j2.properties"
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={logging.as_uri()}"
