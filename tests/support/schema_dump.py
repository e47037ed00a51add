"""The tables of a store as pg_dump writes them, to compare two stores."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from relaybox.local.binaries import major_version
from relaybox.local.clusters import Cluster, postgres_binaries
from tests.support.patience import patience

DUMP = Path(__file__).parents[2] / "sql" / "schema.sql"
"""The dump of a new store, in the repository."""


def expected_dump(cluster: Cluster) -> str:
    """The dump in the repository, as a server of this version gives it: before Postgres 18 a NOT NULL has no name."""
    dump = DUMP.read_text()
    return dump if major_version(cluster.binaries) >= 18 else re.sub(r"CONSTRAINT \w+ NOT NULL", "NOT NULL", dump)


LONE_ALIASES = {"relaybox.consumer_action": "k", "relaybox_internal.sent_rows": "o"}
"""Views of which a part reads one table, with its alias there."""


def _without_lone_alias(view: re.Match[str]) -> str:
    """Before Postgres 16 the columns of a view have their table's alias also where it reads one table."""
    return re.sub(rf"(?<![\w.]){LONE_ALIASES[view[1]]}\.", "", view[0])


def dump_schema(cluster: Cluster, database: str) -> str:
    """Tables, views, indexes, constraints and their comments, without what differs between versions of pg_dump, and without segments."""
    parameters = cluster.parameters(database)
    command = [
        str(postgres_binaries() / "pg_dump"), "--schema-only", "--no-owner", "--no-privileges", "--schema=relaybox", "--schema=relaybox_internal",
        "--exclude-table=relaybox_internal.outbox_s0*", "--exclude-table=relaybox_internal.log_*",
        f"--dbname=host={parameters['host']} port={parameters['port']} user={parameters['user']} dbname={database}",
    ]  # fmt: skip
    output = subprocess.run(
        command,
        env={**os.environ, "PGPASSWORD": parameters.get("password", "")},
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(60),
    ).stdout
    kept = [line for line in output.splitlines() if line and not re.match(r"--|SET |SELECT |\\(un)?restrict", line)]
    text = (
        "-- Made by `make schema` from a fresh store; a test keeps it current. Functions are in sql/functions.\n\n"
        + _without_functions(kept)
    )
    views = "|".join(map(re.escape, LONE_ALIASES))
    return re.sub(rf"CREATE VIEW ({views}) .*?;", _without_lone_alias, text, flags=re.DOTALL)


_RELATION = re.compile(r"\b(?:relaybox|relaybox_internal)\.(\w+)")


def _without_functions(lines: list[str]) -> str:
    """The statements sorted by the name of their relation: pg_dump's own order changes when a function does."""
    statements = re.split(r";\n(?=CREATE|ALTER|COMMENT)", "\n".join(lines))
    kept = [s.rstrip(";\n") for s in statements if not s.startswith(("CREATE FUNCTION", "COMMENT ON FUNCTION"))]
    return ";\n\n".join(sorted(kept, key=_relation)) + ";\n"


def _relation(statement: str) -> tuple[str, str]:
    """The schema and name of the relation that a statement makes, changes or comments on; a schema comes before them all."""
    named = _RELATION.search(statement.partition("\n")[0]) or _RELATION.search(statement)
    return (named.group(0).partition(".")[0], named.group(1)) if named else ("", "")
