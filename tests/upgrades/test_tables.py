"""A store that was upgraded and a new store have the same tables: sql/migrations leads to what sql/tables makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relaybox.local.clusters import Cluster
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.schema.migrations import oldest_version
from relaybox.stores.schema.table_definitions import find_table_defects
from relaybox.stores.sessions.settings import pin_settings, session_settings
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.schema_dump import dump_schema, expected_dump
from tests.support.world import STORES
from tests.upgrades.pictures import PICTURES, restore


@pytest.mark.parametrize("picture", PICTURES)
def test_an_upgraded_store_has_the_tables_of_a_new_one(
    picture: str, databases: Mapping[str, Any], clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """Columns in the same order, constraints, indexes, comments: the dump of each upgraded store is sql/schema.sql, and doctor finds no difference."""
    assert set(databases) == set(STORES)
    older = restore(picture, tmp_path)
    assert older.value("hub", "select max(number) from relaybox.migration") >= oldest_version()
    for name, store in older.routes.stores.items():
        initialise_store(store, older.routes)
        database = older.value(name, "select current_database()")
        assert dump_schema(clusters[name], database) == expected_dump(clusters[name]), name
        with older.session(name) as connection:
            pin_settings(connection, session_settings(), store=name)
            assert find_table_defects(StoreSession(connection, name)) == ()  # segments and logs too
