"""Writes a picture of three stores at work: what pg_dump says of them, as plain SQL that a later version's tests restore and upgrade.

`make picture ARGS=0.1.0` draws this version, into tests/upgrades/0.1.0. An earlier one is drawn with its own code:
`git worktree add ../old COMMIT`, then `make picture ARGS="COMMIT --plugins ../old/plugins"`.

All three stores have the same functions: every_store.sql. Then comes what each has of its own: airline.sql, hub.sql, analytics.sql.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psycopg2
import yaml

from relaybox.local.binaries import postgres_program
from relaybox.local.clusters import Cluster, write_service_file
from tests.support.memory import fast_temporary_directory
from tests.support.stores import running_clusters
from tests.support.world import STORES, wait_until

DIRECTORY = Path(__file__).resolve().parent
DATABASE = "picture"
CLI = "from relaybox import cli; cli.main()"
INIT = """
import sys
from pathlib import Path
from relaybox.routes import load_routes
from relaybox.stores.init.one_store import initialise_store

routes = load_routes(Path(sys.argv[1]))
for store in routes.stores.values():
    initialise_store(store, routes, segment_rows=10)
"""
"""Segments as small as a picture; the command makes them larger."""

SEND = "insert into relaybox.outbox (topic, sender, payload) select 'flights', %s, %s || n from generate_series(1, %s) n"
SEND_NUMBERED = """
insert into relaybox.outbox (topic, sender, index, payload) select 'flights', 'pump-7', n, 'pumped ' || n from unnest(%s::bigint[]) n
"""


def route_file(directory: Path) -> Path:
    """The relaybox.yaml of every picture, for who draws it and for who upgrades it."""
    path = directory / "relaybox.yaml"
    flights = {"topics": ["flights"], "path": list(STORES), "order": "fifo", "message_id_window": 10}
    detached = {
        "replay_window_seconds": 1,
        "stopped_consumer": "detach",
        "detach_after_seconds": 1,
        "detach_to": "/nowhere/detached",
    }
    stores = {"airline": {"retention": {"replay_window_seconds": 86400}}, "hub": {"retention": detached}, "analytics": {}}
    path.write_text(yaml.safe_dump({"stores": stores, "routes": {"flights": flights}}))
    return path


class _Painter:
    """Three empty stores, and the version of Relaybox that fills them."""

    def __init__(self, clusters: Mapping[str, Cluster], directory: Path, plugins: Path) -> None:
        self.clusters, self.config = clusters, route_file(directory)
        services = directory / "services.conf"
        write_service_file(services, {name: cluster.parameters(DATABASE) for name, cluster in clusters.items()})
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(plugins),
            "PGSERVICEFILE": str(services),
            "RELAYBOX_CONFIG": str(self.config),
            "RELAYBOX_ENVIRONMENT": "test",
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(directory),
        }

    def query(self, store: str, statement: str, *arguments: object) -> list[tuple[object, ...]]:
        connection = psycopg2.connect(**self.clusters[store].parameters(DATABASE))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            rows = list(cursor.fetchall()) if cursor.description else []
        connection.close()
        return rows

    def run(self, *command: str, failpoints: str = "", program: str = CLI) -> int:
        """A command of the version, in a process of its own; its exit code. One that a failpoint killed: -9."""
        environment = {**self.environment, **({"RELAYBOX_FAILPOINTS": failpoints} if failpoints else {})}
        ended = subprocess.run(
            [sys.executable, "-c", program, *command], env=environment, cwd="/", capture_output=True, text=True, check=False
        )
        if ended.returncode not in (0, -9):
            raise RuntimeError(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return ended.returncode

    def kill(self, failpoint: str, *command: str) -> None:
        wait_until(lambda: self.run(*command, failpoints=f"{failpoint}=kill") == -9, f"{command} is killed at {failpoint}")


def fill(painter: _Painter) -> None:
    """Everything that a store can have at once: delivered, fetched, held, refused, replayed, planned, half copied, not planned at all."""
    painter.run(str(painter.config), program=INIT)
    painter.query("airline", "select relaybox.declare_sender('pump-7', 'gapless')")
    painter.query("airline", SEND, "UA", "first ", 24)
    painter.query("airline", SEND_NUMBERED, [1, 2, 4])  # 4 is held until 3 arrives
    for command in ("transfer flights/1", "transfer flights/2", "confirm flights"):
        painter.run(*command.split())
    painter.query("hub", "select relaybox.subscribe('stopped', 'flights')")
    painter.kill("detach.begun", "retention", "hub")
    _consume(painter)
    painter.query("airline", SEND, "LH", "copied ", 12)
    painter.run("transfer", "flights/1")
    painter.kill("slice.committed", "transfer", "flights/2")
    painter.query("airline", SEND, "UA", "planned ", 12)
    painter.kill("plan.committed", "transfer", "flights/1")
    painter.query("airline", SEND, "UA", "sent ", 5)


def _consume(painter: _Painter) -> None:
    """billing: 7 acknowledged, one dead letter, the next ones fetched, a replay. audit: two leased lanes."""
    painter.query("hub", "select relaybox.subscribe('audit', 'flights', lanes => 2)")
    for worker in ("one", "two"):
        painter.query("hub", "select * from relaybox.fetch('audit', 3, worker => %s)", worker)
    painter.query("analytics", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    fetched = painter.query("analytics", "select * from relaybox.fetch('billing', 8, worker => 'one')")
    painter.query("analytics", "select relaybox.ack('billing', %s, worker => 'one')", fetched[6][0])
    painter.query("analytics", "select relaybox.nack('billing', %s, 'no such flight', worker => 'one')", fetched[7][0])
    painter.query("analytics", "select * from relaybox.fetch('billing', 4, worker => 'one')")
    painter.query("analytics", "select * from relaybox.replay('billing', 'earliest', 'wrong month', '5', true)")


def draw(painter: _Painter, store: str) -> list[str]:
    """A store's dump, object by object. Without what pg_dump says of itself."""
    dump = subprocess.run(
        [
            *(str(postgres_program("pg_dump")), "--no-owner", "--inserts", "--rows-per-insert=100"),
            *("--schema=relaybox", *(["--schema=relaybox_internal"] if _is_split(painter, store) else [])),
            f"service={store}",
        ],
        env={**os.environ, "PGSERVICEFILE": painter.environment["PGSERVICEFILE"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    said = r"^--\n-- PostgreSQL .*\n--\n|^-- Dumped .*\n|^\\(?:un)?restrict .*\n"
    objects = re.split(
        r"^--\n-- (?:Name|Data for Name): .*\n--\n", re.sub(said, "", dump, flags=re.MULTILINE), flags=re.MULTILINE
    )
    return [one.strip() + "\n" for one in objects]


def _is_split(painter: _Painter, store: str) -> bool:
    return painter.query(store, "select to_regnamespace('relaybox_internal') is not null") == [(True,)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="the tag, or the commit: the directory below tests/upgrades that is written")
    parser.add_argument("--plugins", type=Path, default=DIRECTORY.parents[1] / "plugins", help="the code of that version")
    arguments = parser.parse_args()
    target = DIRECTORY / arguments.version
    target.mkdir(exist_ok=True)
    with fast_temporary_directory("picture") as directory, running_clusters(directory / "clusters") as clusters:
        for cluster in clusters.values():
            connection = psycopg2.connect(**cluster.parameters())
            connection.autocommit = True
            connection.cursor().execute(f"create database {DATABASE}")
            connection.close()
        painter = _Painter(clusters, directory, arguments.plugins.resolve())
        fill(painter)
        dumps = {store: draw(painter, store) for store in STORES}
        clusters_drawn = {
            store: painter.query(store, "select system_identifier from pg_control_system()")[0][0] for store in STORES
        }
    shared = next(n for n, objects in enumerate(zip(*dumps.values(), strict=False)) if len(set(objects)) > 1)
    (target / "every_store.sql").write_text("\n".join(dumps[STORES[0]][:shared]))
    for store, objects in dumps.items():
        (target / f"{store}.sql").write_text("\n".join([f"-- of cluster {clusters_drawn[store]}\n", *objects[shared:]]))


if __name__ == "__main__":
    main()
