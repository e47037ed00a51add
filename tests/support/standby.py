"""Backups and standbys of a cluster, as an administrator makes them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from relaybox.local.clusters import Cluster, find_free_port
from relaybox.local.processes import as_account, server_account


def base_backup(cluster: Cluster, directory: Path, *, standby: bool = False) -> None:
    """A pg_basebackup of a running cluster; as the data directory of a standby that follows it, if asked for."""
    parameters = cluster.parameters()
    password = parameters.pop("password")
    parameters.pop("dbname")
    subprocess.run(
        [
            *(cluster.binaries / "pg_basebackup", "--pgdata", directory, "--checkpoint", "fast", "--no-sync"),
            *(["--write-recovery-conf"] if standby else []),
            *("--dbname", " ".join(f"{key}={value}" for key, value in parameters.items())),
        ],
        check=True,
        cwd=directory.parent,
        env={"PGPASSWORD": password},
        capture_output=True,
        **as_account(server_account()),
    )


def start_standby(primary: Cluster, directory: Path) -> Cluster:
    """A standby that streams from a running primary, asynchronously."""
    base_backup(primary, directory, standby=True)
    standby = replace(primary, name="standby", directory=directory, port=find_free_port())
    with (directory / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"port = {standby.port}\n")
    standby.start()
    return standby
