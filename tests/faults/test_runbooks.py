"""The runbooks are true: the fault is made on real clusters, the commands are run as written, and nothing is lost or doubled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import Cluster, create_cluster, installed_postgres_binaries, write_service_file
from relaybox.local.processes import server_account
from relaybox.stores.init.one_store import initialise_store
from tests.faults.delivery import doubled, not_dense, read_delivered, undelivered
from tests.faults.wal_copies import ask
from tests.support.memory import fast_temporary_directory
from tests.support.patience import patience
from tests.support.runbooks import RUNBOOKS, run_blocks
from tests.support.standby import base_backup, start_standby
from tests.support.world import World, routes_file, wait_until

pytestmark = pytest.mark.thorough

DATABASE = "store"
SETTINGS = {"shared_buffers": "16MB", "max_connections": "40", "recovery_init_sync_method": "syncfs"}


@dataclass
class Drill:
    """The route airline -> hub on two clusters, in a directory that the servers' account may write to."""

    directory: Path
    airline: Cluster
    hub: Cluster
    world: World
    variables: dict[str, str] = field(default_factory=dict)
    cleanup: ExitStack = field(default_factory=ExitStack)

    def serve(self, **others: Cluster) -> None:
        """Writes the service file; more services than the two stores by name."""
        clusters = {"airline": self.airline, "hub": self.hub, **others}
        path = self.directory / "services.conf"
        write_service_file(path, {name: cluster.parameters(DATABASE) for name, cluster in clusters.items()})
        if account := server_account():
            os.chown(path, account.uid, account.gid)

    def removes(self, cluster: Cluster) -> Cluster:
        self.cleanup.callback(cluster.remove)
        return cluster

    def blocks(self, runbook: str) -> Iterator[str]:
        """Runs the runbook's blocks one after the other; what each printed."""
        variables = {"PGSERVICEFILE": os.environ["PGSERVICEFILE"], **self.variables}
        return run_blocks(runbook, variables=variables, binaries=self.hub.binaries, directory=self.directory)

    def run(self, runbook: str, *, stops_after: int, says: str) -> str:
        """Runs the runbook. After this number of blocks the hop stops with the symptom that the runbook names."""
        outputs = []
        for number, output in enumerate(self.blocks(runbook), start=1):
            outputs.append(output)
            if number == stops_after:
                with pytest.raises(errors.HistoryLost, match=says):
                    self.world.transfer()
        return "\n".join(outputs)

    def verifies(self, *, ghosts: list[str]) -> None:
        """Every message that the source still has was delivered once, in order; the others are exactly these ghosts."""
        now = read_delivered(self.world)
        assert [*undelivered(now), *doubled(now), *not_dense(self.world)] == []
        assert now.ghosts("flights/1") == ghosts
        assert [payload for payload in now.logs["flights/1"] if payload not in ghosts] == list(now.sent)


def make_drill(binaries: Path | None = None, **settings: str) -> Iterator[Drill]:
    with ExitStack() as stack:
        directory = stack.enter_context(fast_temporary_directory("drill"))
        airline = create_cluster("airline", directory / "airline", settings={**SETTINGS, **settings}, binaries=binaries)
        hub = create_cluster("hub", directory / "hub", settings=SETTINGS)
        for cluster in (airline, hub):
            stack.callback(cluster.remove)
            cluster.start()
            ask(cluster, f"create database {DATABASE}")
        world = World(routes_file(directory, route={"path": ["airline", "hub"]}))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("PGSERVICEFILE", str(directory / "services.conf"))
        os.environ["RELAYBOX_CONFIG"] = str(world.path)
        stack.callback(os.environ.pop, "RELAYBOX_CONFIG")
        drill = Drill(directory, airline, hub, world, cleanup=stack)
        drill.serve()
        for store in world.route.path:
            initialise_store(store, world.routes, segment_rows=10_000)
        world.send("UA-1", "UA-2")
        world.transfer()
        yield drill


@pytest.fixture
def drill() -> Iterator[Drill]:
    yield from make_drill()


def test_dump_and_reload(drill: Drill) -> None:
    drill.world.send("UA-3")
    drill.world.transfer()
    drill.world.send("UA-4")
    ask(drill.airline, "create role page_login login in role relaybox_viewer, pg_read_all_stats")
    new = drill.removes(create_cluster("new", drill.directory / "new", settings=SETTINGS))
    new.start()
    ask(new, f"create database {DATABASE}")
    ask(new, f"alter role {new.user} password '{drill.airline.password}'")
    drill.variables["NEW_PORT"] = str(new.port)
    drill.serve(airline_new=replace(new, password=drill.airline.password))
    said = drill.run("dump-and-reload", stops_after=3, says="airline was loaded from a dump")
    assert "adopted: 0 messages, 0 of them ghosts" in said
    assert "delivered first in generation 2: 1 message" in said
    memberships = "select string_agg(roleid::regrole::text, ' ' order by roleid::regrole::text) from pg_auth_members"
    assert (
        ask(replace(new, password=drill.airline.password), f"{memberships} where member = 'page_login'::regrole")
        == "pg_read_all_stats relaybox_viewer"
    )
    drill.world.send("UA-5")
    drill.world.transfer()
    drill.verifies(ghosts=[])


@pytest.fixture
def archived() -> Iterator[Drill]:
    with fast_temporary_directory("archive") as archive:
        for drill in make_drill(archive_mode="on", archive_command=f'cp "%p" "{archive}/%f"'):
            drill.variables["ARCHIVE"] = str(archive)
            yield drill


def test_point_in_time_restore(archived: Drill) -> None:
    drill = archived
    backup = drill.directory / "backup"
    base_backup(drill.airline, backup)
    drill.removes(replace(drill.airline, directory=backup))
    drill.world.send("UA-3", "UA-4")
    drill.world.transfer()
    drill.world.send("UA-5")
    restore_to = ask(drill.airline, "select clock_timestamp()::text")
    drill.world.send("UA-6", "UA-7")
    drill.world.transfer()
    drill.variables |= {"DATA": str(drill.airline.directory), "BACKUP": str(backup), "RESTORE_TO": restore_to}
    said = drill.run("point-in-time-restore", stops_after=1, says="the ledger of airline ends at")
    assert "2 of them ghosts" in said
    drill.world.send("UA-8")
    drill.world.transfer()
    drill.verifies(ghosts=["UA-6", "UA-7"])


def test_lossy_failover(drill: Drill) -> None:
    standby = drill.removes(start_standby(drill.airline, drill.directory / "standby"))
    drill.world.send("UA-3")
    drill.world.transfer()
    _wait_for_standby(drill.airline, standby)
    standby.stop()
    drill.world.send("UA-4", "UA-5")
    drill.world.transfer()
    drill.airline.kill()
    standby.start()
    drill.variables |= {"STANDBY": str(standby.directory), "NEW_PORT": str(standby.port)}
    said = drill.run("lossy-failover", stops_after=2, says="the ledger of airline ends at")
    assert "2 of them ghosts" in said
    drill.world.send("UA-6")
    drill.world.transfer()
    drill.verifies(ghosts=["UA-4", "UA-5"])


def test_promotion(drill: Drill) -> None:
    standby = drill.removes(start_standby(drill.airline, drill.directory / "standby"))
    drill.world.send("UA-3")
    drill.world.transfer()
    drill.world.send("UA-4")
    _wait_for_standby(drill.airline, standby)
    drill.variables |= {
        "DATA": str(drill.airline.directory),
        "STANDBY": str(standby.directory),
        "NEW_PORT": str(standby.port),
    }
    drill.run("promotion", stops_after=2, says="on timeline 2.*relaybox attest airline")
    drill.world.send("UA-5")
    drill.world.transfer()
    drill.verifies(ghosts=[])


def _wait_for_standby(primary: Cluster, standby: Cluster) -> None:
    wanted = ask(primary, "select pg_current_wal_lsn()::text")
    wait_until(
        lambda: ask(standby, f"select coalesce(pg_last_wal_replay_lsn() >= '{wanted}', false)"), "the standby has everything"
    )


@pytest.fixture
def oldest() -> Iterator[Drill]:
    """The source runs the oldest version on this machine."""
    yield from make_drill(binaries=installed_postgres_binaries()[min(installed_postgres_binaries())])


def test_pg_upgrade(oldest: Drill) -> None:
    """From the oldest version here to the newest; with only one, into a new cluster of it, which changes the identifier too."""
    drill = oldest
    drill.world.send("UA-3")
    upgraded = drill.removes(replace(drill.airline, directory=drill.directory / "upgraded", binaries=drill.hub.binaries))
    password_file, pass_file = drill.directory / "password", drill.directory / "pgpass"
    for path, content in ((password_file, drill.airline.password), (pass_file, f"*:*:*:*:{drill.airline.password}")):
        path.touch(mode=0o600)
        path.write_text(content + "\n")
        if account := server_account():
            os.chown(path, account.uid, account.gid)
    drill.variables |= {
        "OLD_BIN": str(drill.airline.binaries),
        "NEW_BIN": str(upgraded.binaries),
        "OLD_DATA": str(drill.airline.directory),
        "NEW_DATA": str(upgraded.directory),
        "PGUSER": drill.airline.user,
        "PASSWORD_FILE": str(password_file),
        "PGPASSFILE": str(pass_file),
    }
    said = drill.run("pg-upgrade", stops_after=1, says="airline is cluster.*relaybox attest airline")
    assert "recorded; hops flights/1 continue" in said
    assert ask(upgraded, "select current_setting('server_version_num')::integer / 10000", database=DATABASE) == max(
        installed_postgres_binaries()
    )
    drill.world.send("UA-4")
    drill.world.transfer()
    drill.verifies(ghosts=[])


def test_stopped_standby(drill: Drill) -> None:
    """A transfer hangs in COMMIT, goes on once the standby is given up, and lost nothing."""
    drill.world.send("UA-3")
    ask(drill.airline, "alter system set synchronous_standby_names = 'gone'")
    ask(drill.airline, "select pg_reload_conf()")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(drill.world.transfer)
        waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and application_name like '% driver'"
        wait_until(lambda: ask(drill.airline, waiting) == 1, "the plan's COMMIT waits for the standby")
        for _ in drill.blocks("stopped-standby"):
            pass
        hanging.result(patience(60))
    drill.verifies(ghosts=[])


def test_every_runbook_is_run_by_a_test() -> None:
    """Here, with the alarms, or with the command that it is about."""
    names = ("integration/test_alarm_runbooks.py", "integration/test_rebuild.py", "spark/test_runbooks.py")
    others = (Path(__file__).parents[1] / name for name in names)
    source = "".join(path.read_text(encoding="utf-8") for path in (Path(__file__), *others))
    assert [path.stem for path in sorted(RUNBOOKS.glob("*.md")) if f'"{path.stem}"' not in source] == []
