"""`pip install relaybox[airflow]` beside the Airflow that a team runs: no version of theirs changes, and Airflow finds what came.

Airflow's own constraints files can't be had from a package registry. `make lock` writes what stands for them: all versions that the
lowest and the highest Airflow, installed alone, resolve to.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.bare_airflow import REPOSITORY, VERSIONS, make_bare_airflow

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("level", ["lowest", "highest"])
def test_an_installation_beside_airflow_changes_no_version_of_it(level: str, wheel: Path, tmp_path: Path) -> None:
    """With the constraints of this Airflow, all that it had stays as it is; Relaybox and what it needs is added."""
    airflow = make_bare_airflow(tmp_path / "venv", VERSIONS / f"airflow-{level}.txt")
    before = airflow.versions()
    assert before["apache-airflow"] == recorded(level)["apache-airflow"]
    assert "relaybox" not in before
    airflow.install(f"relaybox[airflow] @ {wheel.as_uri()}")
    after = airflow.versions()
    assert {package: after.get(package) for package in before} == before
    added = set(after) - set(before)
    assert {"relaybox", "apache-airflow-providers-apache-spark"} <= added
    assert "pyspark" not in added, "a JVM's worth of files that only routes with Spark need"


def test_the_constraints_are_those_of_the_lowest_and_the_highest_airflow() -> None:
    """The range is that of pyproject.toml; the highest is what all other tests run."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    (taken,) = [
        Requirement(line)
        for line in project["project"]["optional-dependencies"]["airflow"]
        if re.match(r"apache-airflow[><=]", line)
    ]
    (line,) = [line for line in (VERSIONS / "airflow.in").read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert Requirement(line).specifier == taken.specifier
    for level, lock in (("lowest", VERSIONS / "lowest.lock"), ("highest", REPOSITORY / "requirements.lock")):
        assert recorded(level)["apache-airflow"] == pinned(lock)["apache-airflow"]


def recorded(level: str) -> dict[str, str]:
    return pinned(VERSIONS / f"airflow-{level}.txt")


def pinned(path: Path) -> dict[str, str]:
    """Package -> version, of a file of pins."""
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
