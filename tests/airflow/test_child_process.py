"""What the Spark driver inherits from its task."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from relaybox.airflow.child_process import driver_environment


def test_nothing_of_airflow_reaches_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the metadata database, not a key, not a connection: a Spark application is a program like any other."""
    for name in (
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "AIRFLOW_CONN_RELAYBOX_HUB",
        "AIRFLOW_CTX_DAG_ID",
        "_AIRFLOW_PROCESS_CONTEXT",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    environment = driver_environment(Path("/etc/relaybox.yaml"))
    assert [name for name, value in environment.items() if "AIRFLOW" in name or value == "secret"] == []
    assert environment["JAVA_HOME"] == "/opt/java"
    assert environment["RELAYBOX_CONFIG"] == "/etc/relaybox.yaml"


def test_the_driver_runs_this_python_unless_the_deployment_names_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would take the first python3 on the path, which need not have Relaybox."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/opt/python")
    monkeypatch.setenv("PATH", "/opt/spark/bin")
    environment = driver_environment(Path("relaybox.yaml"))
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["PYSPARK_DRIVER_PYTHON"] == "/opt/python"
    assert environment["PATH"] == f"/opt/spark/bin{os.pathsep}{Path(sys.executable).parent}"
