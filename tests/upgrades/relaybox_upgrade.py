"""Relaybox is upgraded as docs/upgrades.md says, under an Airflow that moves messages all the while: `make test-relaybox-upgrade`.

Not in the default suite: it installs Airflow twice and starts it four times.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.clusters import Cluster
from tests.support.bare_airflow import REPOSITORY, BareAirflow, build_wheel
from tests.support.patience import patience
from tests.support.world import STORES, World, wait_until
from tests.upgrades.running_airflow import (
    ROUTE,
    STEP_SECONDS,
    SliceGate,
    Traffic,
    install,
    metadata_database,
    require_each_once_in_order,
    running,
    settled,
    standalone,
    wait_until_settled,
)

VERSION = "0.9.9"
MIGRATION = """-- {phase}: adds columns only
alter table relaybox_internal.subscription add column made_up text;
alter table relaybox_internal.sender add column made_up text not null default 'made up';
create table relaybox.made_up (made_up text);
"""


@dataclass
class Deployment:
    """A running Airflow with this Relaybox, the next Relaybox beside it, and an application that sends."""

    world: World
    gate: SliceGate
    older: AirflowStandalone
    newer: AirflowStandalone
    next_programs: Path
    traffic: Traffic

    def init(self) -> subprocess.CompletedProcess[str]:
        """`relaybox init` of the next version, as the owner."""
        return _next_relaybox(self.world, self.next_programs, "init")

    def migrations(self) -> set[int]:
        """The newest migration of each store."""
        return {self.world.value(store, "select max(number) from relaybox.migration") for store in STORES}

    def more(self) -> int:
        """How many messages are settled when some more are than now."""
        count = settled(self.world) + 20
        wait_until_settled(self.world, count)
        return count


@contextmanager
def deployed(world: World, clusters: Mapping[str, Cluster], directory: Path, phase: str) -> Iterator[Deployment]:
    """The next version has one more migration, of this phase. At the end every message was delivered once, in order."""
    this, following = directory / "this", directory / "next"
    older = install(directory / "older", "highest", build_wheel(this))
    newer = install(directory / "newer", "highest", build_wheel(following / "dist", _next_tree(following / "tree", phase)))
    world.change_route(**ROUTE)
    gate = SliceGate(directory)
    with metadata_database(clusters["hub"]) as url:
        airflow = standalone(world, directory, url, gate.directory, older.bin)
        next_airflow = replace(airflow, programs=newer.bin)
        with airflow:
            airflow.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
            assert _version(older) != _version(newer) == VERSION
            world.send_many(500, sender="before")
            wait_until_settled(world, 500)
            with Traffic(world) as traffic:
                yield Deployment(world, gate, airflow, next_airflow, newer.bin, traffic)
            with next_airflow:
                next_airflow.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
                sent = 500 + traffic.count
                wait_until_settled(world, sent)
                wait_until(lambda: not running(next_airflow), "no run is left", deadline_seconds=STEP_SECONDS, poll_seconds=0.5)
    require_each_once_in_order(world, traffic, sent)
    verified = _next_relaybox(world, newer.bin, "verify", "flights")
    assert verified.returncode == 0, verified


def test_a_pre_migration_is_applied_under_running_transfers(
    world: World, clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """init beside a slice that is half copied; the former version goes on; then it is killed in another slice, and the next one starts."""
    with deployed(world, clusters, tmp_path, "pre") as deployment:
        deployment.gate.close()
        done = deployment.init()
        assert done.returncode == 0, done
        assert "0990 made_up (pre)" in done.stdout
        deployment.gate.open()
        deployment.more()
        deployment.gate.close()
        assert any(dag.startswith("relaybox_transfer__") for dag in running(deployment.older))
        deployment.older.stop()
        deployment.gate.open()


def test_a_post_migration_needs_an_end_of_the_former_version(
    world: World, clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """Before, init changes nothing and names who is there. Afterwards the former version moves nothing, and the next one all."""
    with deployed(world, clusters, tmp_path, "post") as deployment:
        before = deployment.migrations()
        deployment.gate.close()
        refused = deployment.init()
        assert refused.returncode != 0, refused
        assert "it has sessions: relaybox" in refused.stderr
        assert deployment.migrations() == before
        deployment.gate.open()
        deployment.more()
        deployment.older.stop()
        done = deployment.init()
        assert done.returncode == 0, done
        moved = settled(world)
        with deployment.older:
            deployment.older.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
            log = deployment.older.home / "logs"
            wait_until(
                lambda: _says(log, "its schema is version 990"), "the former version refuses", deadline_seconds=STEP_SECONDS
            )
        assert settled(world) == moved


def test_code_before_its_stores_moves_nothing_until_init(world: World, clusters: Mapping[str, Cluster], tmp_path: Path) -> None:
    """The wrong order. The next version says what to run, and goes on by itself once that has run."""
    with deployed(world, clusters, tmp_path, "pre") as deployment:
        deployment.older.stop()
        moved = settled(world)
        with deployment.newer:
            deployment.newer.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
            log = deployment.newer.home / "logs"
            wait_until(lambda: _says(log, "Run: relaybox init"), "the next version refuses", deadline_seconds=STEP_SECONDS)
            assert settled(world) == moved
            done = deployment.init()
            assert done.returncode == 0, done
            deployment.more()


def _next_tree(directory: Path, phase: str) -> Path:
    """This repository with another version and one more migration."""
    for name in ("plugins", "sql", "dags", "spark_apps"):
        shutil.copytree(REPOSITORY / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, directory / name)
    (directory / "sql" / "migrations" / "0990_made_up.sql").write_text(MIGRATION.format(phase=phase))
    init = directory / "plugins" / "relaybox" / "__init__.py"
    text = init.read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("__version__")]
    init.write_text(text.replace(line, f'__version__ = "{VERSION}"'))
    return directory


def _version(airflow: BareAirflow) -> str:
    return airflow.versions()["relaybox"]


def _says(logs: Path, text: str) -> bool:
    return any(text in path.read_text(encoding="utf-8", errors="replace") for path in logs.rglob("*") if path.is_file())


def _next_relaybox(world: World, programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the next version: this process has the former one."""
    command = [programs / "relaybox", "--config", world.path, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=_environment())


def _environment() -> dict[str, str]:
    """Of the owner: no variable that leads to this tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "RELAYBOX_CONFIG")}
