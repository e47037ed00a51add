"""The clusters that most tests share: made for one run, or kept for many (mutation tests start a thousand)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from relaybox.local.clusters import Cluster, create_cluster
from tests.support.logins import make_logins_cheap
from tests.support.postgres_versions import NEWEST, server_binaries
from tests.support.world import STORES

SETTINGS = {
    "max_prepared_transactions": "600",
    "track_commit_timestamp": "on",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
    "autovacuum_naptime": "24d",
}
"""Autovacuum is on, as a store wants it, and never has its turn: it would change pages, statistics and locks by chance."""


@contextmanager
def running_clusters(directory: Path, major: int | None = None) -> Iterator[Mapping[str, Cluster]]:
    """A cluster per store, gone afterwards; the major version is that of make_cluster()."""
    clusters = {store: make_cluster(store, directory, major) for store in STORES}
    try:
        for cluster in clusters.values():
            start_cluster(cluster)
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.remove()


def make_cluster(store: str, directory: Path, major: int | None = None) -> Cluster:
    """Not started yet. Its major version is RELAYBOX_TEST_POSTGRES, or the newest, unless the caller names one."""
    binaries = server_binaries(major or int(os.environ.get("RELAYBOX_TEST_POSTGRES", NEWEST)))
    return create_cluster(store, directory / store, settings=SETTINGS, binaries=binaries)


def start_cluster(cluster: Cluster) -> None:
    cluster.start()
    make_logins_cheap(cluster)


def write_clusters(path: Path, clusters: Mapping[str, Cluster]) -> None:
    """For RELAYBOX_TEST_CLUSTERS: where running clusters are, passwords included."""
    kept = {
        store: {"directory": str(cluster.directory), "port": cluster.port, "user": cluster.user, "password": cluster.password}
        for store, cluster in clusters.items()
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept), encoding="utf-8")


def read_clusters(path: Path) -> dict[str, Cluster]:
    """What write_clusters wrote. Who reads it neither starts nor stops them."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {store: Cluster(store, Path(at["directory"]), at["port"], at["user"], at["password"]) for store, at in kept.items()}
