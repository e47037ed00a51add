"""Programs in Node, connected to a store by the variables that every client of Postgres knows."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import playwright

from tests.support.patience import patience

PACKAGES = Path(__file__).parents[1] / "node"
"""Where `require("pg")` finds a stand-in that speaks the real wire protocol."""


def node() -> str:
    """The machine's Node, or the one in Playwright's wheel."""
    return shutil.which("node") or str(Path(playwright.__file__).parent / "driver" / "node")


def server_variables(store: str) -> dict[str, str]:
    """The environment variables by which each client of Postgres finds a store."""
    services = configparser.ConfigParser()
    services.read(os.environ["PGSERVICEFILE"])
    at = services[store]
    return {
        "PGHOST": at["host"],
        "PGPORT": at["port"],
        "PGUSER": at["user"],
        "PGPASSWORD": at["password"],
        "PGDATABASE": at["dbname"],
    }


def run_node(program: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A program, connected to the hub by the variables that every client of Postgres knows."""
    return subprocess.run(
        [node(), str(program), *arguments],
        env={**os.environ, **server_variables("hub"), "NODE_PATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        check=check,
        timeout=patience(60),
    )
