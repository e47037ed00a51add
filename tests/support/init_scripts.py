"""Scripts of `relaybox init --sql`, and what a store looks like after an init of either kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.support.cli import invoke
from tests.support.database_dump import dump
from tests.support.psql import run_psql
from tests.support.world import World

_ROWS = """
select string_agg(format('select %%L as name, to_jsonb(t) as row from %%s t', c.oid::regclass, c.oid::regclass), ' union all ')
from pg_class c
where c.relnamespace in (to_regnamespace('relaybox'), to_regnamespace('relaybox_internal')) and c.relkind in ('r', 'p')
    and not c.relispartition
"""
_DIFFER = re.compile(r"_at$|^store_id$|_said_by$|^in_file_by$|^removed_by$|^xid$")
"""Times, the random id of a store, who ran the init, and its transaction."""


def write_script(directory: Path, *arguments: str) -> Path:
    """The output of `relaybox init --sql`."""
    written = invoke("init", "--sql", *arguments)
    assert (written.exit_code, written.stderr) == (0, ""), written.stderr
    path = directory / f"init-{'-'.join(re.sub('[^a-z]', '', one) for one in arguments)}.sql"
    path.write_text(written.stdout)
    return path


def init_by_script(directory: Path, store: str, *arguments: str, service: str = "") -> str:
    """Writes and runs a script, which must end well; what it printed."""
    done = run_psql(write_script(directory, store, *arguments), service or store)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert re.search(
        rf"^store {store}: owner: .+\n(store {store}: .+\n)*store {store}: up to date, schema [0-9]+\n\Z", done.stdout
    )
    return done.stdout


def picture_of(world: World, store: str) -> tuple[str, list[Any]]:
    """The schema with owners, rights, comments and functions, and every row without what differs between two stores."""
    rows = world.query(store, world.value(store, _ROWS).replace("%", "%%"))
    kept = [(name, {key: value for key, value in row.items() if not _DIFFER.search(key)}) for name, row in rows]
    return dump(store, "--schema-only"), sorted(kept, key=str)
