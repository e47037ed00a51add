"""Settings of a Spark driver, wherever it is started: by Airflow, or by the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def driver_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings of an application that Airflow starts: ours, then those of its route. Options of the JVM are added to ours."""
    options = " ".join([driver_java_options(), *([conf[_JAVA_OPTIONS]] if _JAVA_OPTIONS in conf else [])])
    return {"spark.ui.enabled": "false", **conf, _JAVA_OPTIONS: options}


def driver_java_options() -> str:
    """Options of a JVM that schedules and moves no row.

    Its start is most of what it does: the quick compiler and the simple collector take 7 CPU seconds for it, the defaults 13.
    """
    return f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {logging_java_option()}"


def logging_java_option() -> str:
    """The log has warnings and errors of Spark only: what a run tells is batches, counts and rates."""
    logging = Path(str(resources.files("relaybox"))) / "spark" / "log4j2.properties"
    return f"-Dlog4j2.configurationFile={logging.as_uri()}"
