"""Puts the stores of a picture (tests.upgrades.make_picture) into three databases, as if they had always been there."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2

from tests.support.world import STORES, World
from tests.upgrades.make_picture import DIRECTORY, route_file

PICTURES = sorted(path.parent.name for path in DIRECTORY.glob("*/every_store.sql"))
_TRANSACTIONS = 5000
"""More than any picture has used: its messages carry transaction numbers, which have to lie in the past of the cluster."""
_NEWER = [(17, "SET transaction_timeout = 0;", ""), (18, "RETURN uuidv7()", "RETURN gen_random_uuid()")]
"""Pictures are drawn on Postgres 18: what came with which version, and what an earlier one gets in its place."""

_USE_TRANSACTIONS = f"""
do $$ begin
    while pg_current_xact_id() < '{_TRANSACTIONS}' loop
        commit;
    end loop;
end $$
"""


def restore(picture: str, directory: Path) -> World:
    """The three stores of a picture, in the empty databases of the service file, and their relaybox.yaml."""
    texts = {store: (DIRECTORY / picture / f"{store}.sql").read_text() for store in STORES}
    before = (DIRECTORY / picture / "every_store.sql").read_text()
    world = World(route_file(directory))
    clusters = {}
    for store, text in texts.items():
        drawn = re.match(r"-- of cluster (\d+)\n", text)
        assert drawn is not None
        clusters[drawn[1]] = str(world.value(store, "select system_identifier from pg_control_system()"))
    for store, text in texts.items():
        here = re.sub("|".join(clusters), lambda drawn: clusters[drawn[0]], text)
        world.query(store, _USE_TRANSACTIONS)
        for role in sorted({*re.findall(r"^(?:GRANT|ALTER DEFAULT) .* TO (relaybox_\w+)", here, re.MULTILINE)}):
            world.query(store, f"do $$ begin create role {role} nologin; exception when duplicate_object then null; end $$")
        with closing(psycopg2.connect(service=store)) as connection, connection.cursor() as cursor:
            cursor.execute(_as_of(connection.server_version // 10_000, before + here))
            connection.commit()
    assert world.value("airline", f"select bool_and(xid < '{_TRANSACTIONS}') from relaybox.outbox")
    return world


def _as_of(major: int, text: str) -> str:
    for since, newer, older in _NEWER:
        if major < since:
            text = text.replace(newer, older)
    return text
