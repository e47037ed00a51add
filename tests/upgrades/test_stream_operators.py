"""An upgrade from 892d821: operators are bound after it, act on subscriptions that were there before, and nobody is bound by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.world import STORES, World
from tests.upgrades.pictures import restore

pytestmark = pytest.mark.thorough

STORE = "analytics"


@pytest.fixture
def upgraded(databases: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Stores of 892d821 after init, with bind_subscriptions, and the login of an operator."""
    assert set(databases) == set(STORES)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    world = restore("892d821", tmp_path)
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {**(document["stores"][STORE] or {}), "bind_subscriptions": True}
    world.path.write_text(yaml.safe_dump(document))
    world.initialise()
    world.query(STORE, "create role ops_upgraded login password 'secret' in role relaybox_operator, relaybox_consumer")
    yield world
    world.query(STORE, "drop owned by ops_upgraded; drop role ops_upgraded")


def test_an_operator_is_bound_after_the_upgrade_and_by_no_init(upgraded: World) -> None:
    subscription, stream = upgraded.query(STORE, "select subscription, stream from relaybox.subscriptions order by 1")[0]
    assert upgraded.query(STORE, "select from relaybox_internal.stream_role") == []
    session = psycopg2.connect(service=STORE, user="ops_upgraded", password="secret")
    session.autocommit = True
    try:
        with session.cursor() as cursor:
            with pytest.raises(psycopg2.Error) as refused:
                cursor.execute("select relaybox.redrive(%s, 'why')", (subscription,))
            assert refused.value.pgcode == "RB040"
            assert invoke("operators", "bind", STORE, stream, "ops_upgraded").exit_code == 0
            upgraded.query(STORE, "update relaybox_internal.installed_object set digest = 'older'")
            initialise_store(upgraded.routes.stores[STORE], upgraded.routes)  # a later init keeps what is bound
            cursor.execute("select relaybox.redrive(%s, 'why')", (subscription,))
            cursor.execute("select subscription from relaybox.subscriptions")
            own = {name for (name,) in cursor.fetchall()}
    finally:
        session.close()
    of_stream = upgraded.query(STORE, "select subscription from relaybox.subscriptions where stream = %s", stream)
    assert own == {name for (name,) in of_stream}
