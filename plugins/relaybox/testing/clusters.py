"""The server of a test run: a copy of a data directory that was made once, and is kept for later runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from relaybox import __version__
from relaybox.env_vars import environment
from relaybox.local.clusters import Cluster, create_cluster, find_free_port, write_service_file
from relaybox.local.processes import server_account
from relaybox.local.scratch import make_scratch, remove_abandoned, remove_scratch
from relaybox.routes import Routes, load_routes
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.schema.migrations import sql_directory

OUTBOX, INBOX = "outbox_store", "inbox_store"
"""The stores of the route `test`, and the databases that are copied for each test."""

LOGIN, PASSWORD = "application", "application"
"""Of the tests: owns their databases, sends and consumes, and may do no more."""

_KEPT_DAYS = 30
_MEMORY = Path("/dev/shm")  # noqa: S108  # private directories are made in it
_ENOUGH_BYTES = 2**30
_SETTINGS = {"shared_buffers": "32MB", "max_wal_size": "1GB", "autovacuum": "off", "synchronous_commit": "off"}


@dataclass(frozen=True)
class TestCluster:
    """A running server, and the directory of its run."""

    __test__ = False

    cluster: Cluster
    directory: Path

    @property
    def is_in_memory(self) -> bool:
        return self.directory.is_relative_to(_MEMORY)

    @property
    def routes(self) -> Routes:
        return load_routes(self.directory / "relaybox.yaml")


@contextmanager
def running_cluster(topics: Sequence[str]) -> Iterator[TestCluster]:
    """A server for the block, with stores whose route moves these topics."""
    parent = _fast_directory()
    remove_abandoned(lambda _: None, *() if parent is None else (parent,))
    directory = make_scratch("testing", parent)
    try:
        cluster = _copy(_kept_template(topics), directory)
        cluster.start()
        try:
            yield TestCluster(cluster, directory)
        finally:
            cluster.remove()
    finally:
        remove_scratch(directory)


def _fast_directory() -> Path | None:
    """Memory, if there is enough: a database has five hundred files, and Postgres syncs each that it copies. None: the usual directory."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ENOUGH_BYTES:
        return None
    return _MEMORY


def _copy(template: Path, directory: Path) -> Cluster:
    """A cluster of the run's own: another port, its data below `directory`, which the account that runs servers may enter."""
    directory.chmod(0o711)
    shutil.copy(template / "relaybox.yaml", directory)
    data = directory / "data"
    subprocess.run(["cp", "-a", "--reflink=auto", template / "data", data], check=True)
    kept = json.loads((template / "cluster.json").read_text(encoding="utf-8"))
    cluster = Cluster("testing", data, find_free_port(), kept["user"], kept["password"])
    with (data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"port = {cluster.port}\n")
    if account := server_account():
        for path in (data, *data.rglob("*")):
            os.chown(path, account.uid, account.gid)
    return cluster


def _kept_template(topics: Sequence[str]) -> Path:
    """The directory that every run copies: made by the first run of this version of Relaybox with these topics."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "relaybox"
    home.mkdir(parents=True, exist_ok=True)
    kept = home / f"testing-{_digest(topics)}"
    if not kept.exists():
        _remove_old(home)
        made = Path(tempfile.mkdtemp(prefix="making-", dir=home))
        try:
            _make_template(made, topics)
            made.rename(kept)
        except OSError:  # another run was first
            if not kept.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=not made.exists())
    os.utime(kept)
    return kept


def _digest(topics: Sequence[str]) -> str:
    """Of all that the template is made of."""
    digest = hashlib.sha256(json.dumps([__version__, sorted(topics), _SETTINGS]).encode())
    for path in sorted(sql_directory().rglob("*.sql")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _remove_old(home: Path) -> None:
    """What no run has used for long. Of several runs at once one removes it; killed meanwhile, it leaves no half of a template."""
    for directory in (*home.glob("testing-*"), *home.glob("making-*")):
        with suppress(FileNotFoundError):  # another run was first
            if time.time() - directory.stat().st_mtime > _KEPT_DAYS * 86_400:
                os.utime(directory)  # so no other run takes it under its new name
                shutil.rmtree(directory.rename(home / f"making-{uuid.uuid4().hex}"))


def _make_template(directory: Path, topics: Sequence[str]) -> None:
    """Both stores as `relaybox init` makes them, the login of the application, and what a copy has to know."""
    work = make_scratch("testing", _fast_directory())
    try:
        work.chmod(0o711)
        cluster = create_cluster("testing", work / "data", settings=_SETTINGS)
        cluster.start()
        try:
            _initialise(cluster, directory, topics)
        finally:
            cluster.stop()
        shutil.copytree(cluster.directory.resolve(), directory / "data")
        kept = {"user": cluster.user, "password": cluster.password}
        (directory / "cluster.json").write_text(json.dumps(kept), encoding="utf-8")
    finally:
        remove_scratch(work)


def _initialise(cluster: Cluster, directory: Path, topics: Sequence[str]) -> None:
    administer(cluster, f"create role {LOGIN} login password '{PASSWORD}'")
    for database in (OUTBOX, INBOX):
        administer(cluster, f"create database {database}")
    route = {"topics": list(topics), "path": [OUTBOX, INBOX], "runner": "threads"}
    document = {"stores": {OUTBOX: {}, INBOX: {}}, "routes": {"test": route}}
    (directory / "relaybox.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    routes = load_routes(directory / "relaybox.yaml")
    service_file = directory / "services.conf"
    write_service_file(service_file, {database: cluster.parameters(database) for database in (OUTBOX, INBOX)})
    try:
        with environment(PGSERVICEFILE=str(service_file)):
            for store in routes.stores.values():
                initialise_store(store, routes)
    finally:
        service_file.unlink()
    administer(cluster, f"grant relaybox_producer, relaybox_consumer to {LOGIN}")


def administer(cluster: Cluster, statement: str) -> None:
    """Runs a statement as the owner of the server."""
    parameters: dict[str, Any] = {**cluster.parameters()}
    with closing(psycopg2.connect(**parameters)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def of_application(cluster: Cluster) -> Cluster:
    """The same server, for the login of the application."""
    return replace(cluster, user=LOGIN, password=PASSWORD)
