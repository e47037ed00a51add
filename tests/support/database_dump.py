"""Everything that is in the database of a store, as text: equal texts, nothing has changed."""

from __future__ import annotations

import os
import re
import subprocess

from relaybox.local.clusters import postgres_binaries
from tests.support.patience import patience
from tests.support.services import read_service


def dump(store: str, *options: str) -> str:
    """Everything in the database: schemas, rights, rows, numbers of sequences; or what pg_dump writes with these options."""
    service = read_service(store)
    conninfo = " ".join(f"{name}={value}" for name, value in service.items() if name != "password")
    output = subprocess.run(
        [str(postgres_binaries() / "pg_dump"), f"--dbname={conninfo}", *options],
        env={**os.environ, "PGPASSWORD": service.get("password", "")},
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(120),
    ).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", output, flags=re.MULTILINE)
