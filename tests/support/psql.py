"""psql as a DBA runs it: a process of its own, with a file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from relaybox.local.clusters import postgres_binaries
from tests.support.patience import patience


def start_psql(file: Path, service: str, *options: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts `psql -X -v ON_ERROR_STOP=1 -f FILE` in the database of a service."""
    return subprocess.Popen(
        [
            *(str(postgres_binaries() / "psql"), "-X", "-v", "ON_ERROR_STOP=1", *options),
            *("-f", str(file), f"service={service}"),
        ],
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_psql(
    file: Path, service: str, *options: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As start_psql(), to its end."""
    process = start_psql(file, service, *options, environment=environment)
    stdout, stderr = process.communicate(timeout=patience(120))
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
