"""The stores of a route may run different versions of Postgres: each hop crosses from one to the other, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relaybox.local.clusters import Cluster
from tests.support.cli import invoke
from tests.support.postgres_versions import NEWEST, OLDEST
from tests.support.senders import declare, send_numbered, stream
from tests.support.world import STORES, World, routes_file

pytestmark = pytest.mark.thorough

HOSTILE = (
    "",
    "\\N",
    "\\.",
    "a\tb\nc\rd",
    "'; drop table relaybox.outbox; --",
    "\u00fc\u2603\U0001f680",
    "\x01\x7f",
    '{"a": [1, null]}',
)


@pytest.fixture(
    scope="module", params=[(OLDEST, NEWEST, OLDEST), (NEWEST, OLDEST, NEWEST)], ids=lambda majors: "-".join(map(str, majors))
)
def versions(request: pytest.FixtureRequest) -> Mapping[str, int]:
    """Store to major version."""
    return dict(zip(STORES, request.param, strict=True))


@pytest.fixture(scope="module")
def clusters(
    versions: Mapping[str, int], clusters: Mapping[str, Cluster], old_clusters: Mapping[str, Cluster]
) -> Mapping[str, Cluster]:
    return {store: (old_clusters if major == OLDEST else clusters)[store] for store, major in versions.items()}


@pytest.fixture
def mixed(databases: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The route `flights`, with checksums and in the order of its senders."""
    path = routes_file(tmp_path, route={"order": "fifo", "integrity": "checksum", "limits": {"batch_rows": 64, "slice_rows": 16}})
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    world = World(path)
    world.initialise()
    return world


def test_a_route_crosses_versions_in_both_directions(mixed: World, versions: Mapping[str, int]) -> None:
    """Sent, moved twice, put into order, consumed, confirmed back to the source, verified and cleaned up."""
    for store, major in versions.items():
        assert mixed.value(store, "select current_setting('server_version_num')::integer / 10000") == major
    declare(mixed, "UA", "AA")
    for index, payload in enumerate(HOSTILE, 1):
        send_numbered(mixed, "UA", index, payload=payload.replace("{", "{{").replace("}", "}}"))
    send_numbered(mixed, "AA", 2, 1, 3)
    mixed.send_many(200, sender="none")
    mixed.transfer_all()
    assert sorted(mixed.payloads("flights/1")) == sorted(mixed.payloads("flights/2")) == sorted(mixed.sent())
    assert len(mixed.sent()) == len(HOSTILE) + 3 + 200
    assert stream(mixed, "hub") == stream(mixed, "analytics")
    assert [payload for payload in stream(mixed, "analytics") if payload.startswith("AA")] == ["AA1", "AA2", "AA3"]
    for store in ("airline", "hub"):  # both ends of a hop hashed the same bytes to the same number
        assert mixed.value(store, "select bool_and(cardinality(digests) > 0) from relaybox_internal.batch") is True
    mixed.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    with mixed.session("analytics") as connection, connection.cursor() as cursor:
        cursor.execute("select stream_position, payload from relaybox.fetch('billing', 1000)")
        fetched = cursor.fetchall()
        assert [payload for _, payload in fetched] == stream(mixed, "analytics")
        cursor.execute("select relaybox.ack('billing', stream_position => %s)", (fetched[-1][0],))
        connection.commit()
    mixed.settle_all()
    settled = "select max(through_position) from relaybox_internal.confirmation where hop = 'flights/1' and state = 'settled'"
    assert mixed.value("airline", settled) == len(mixed.sent())
    verified = invoke("verify", "flights", "--json")
    assert verified.exit_code == 0, verified.stdout + verified.stderr
    assert (verified.document["outcome"], verified.document["end_to_end"]["received"]) == ("delivered", len(mixed.sent()))
    status = invoke("status")
    assert status.exit_code == 0, status.stdout + status.stderr
    assert invoke("retention").exit_code == 0


def test_functions_are_recorded_alike_on_every_version(mixed: World) -> None:
    """So a function is judged after pg_upgrade too; each version writes views in its own way. No store lacks a right."""
    recorded = "select identity, definition from relaybox_internal.installed_object where kind = 'function' order by identity"
    airline, hub, analytics = (mixed.query(store, recorded) for store in STORES)
    assert airline == hub == analytics
    assert len(airline) > 390
    for store in STORES:
        assert mixed.query(store, "select defect from relaybox_internal.list_right_defects()") == []
        mixed.query(store, "update relaybox_internal.installed_object set made_on = made_on - 1")
    assert invoke("doctor").exit_code == 0
    assert invoke("init").exit_code == 0
    assert invoke("init", "--dry-run").exit_code == 0
