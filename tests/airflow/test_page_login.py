"""Streams and consumers with the login that docs/logins.md gives the page: a viewer of the stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relaybox.airflow.page.store_overview import StoreOverview
from tests.airflow.connections import change_connection
from tests.airflow.page_client import PageServer
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def read_by_viewer(page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Of three messages, billing set aside the first, acknowledged the second, and waits for the third."""
    deliver(connected, 3)
    connected.query(STORE, "create role page_viewer login password 'secret' in role relaybox_viewer")
    connected.query(STORE, "select relaybox.subscribe('billing', 'flights', start => 'earliest')")
    connected.query(STORE, "update relaybox_internal.subscription set nack_limit = 1")
    for step in ("relaybox.nack('billing', 1, 'bad', %s)", "relaybox.ack('billing', 2, %s)"):
        token = connected.value(STORE, "select token from relaybox.fetch('billing', 1, worker => 'w')")
        connected.query(STORE, f"select {step}", token)
    change_connection(monkeypatch, f"RELAYBOX_{STORE.upper()}", login="page_viewer", password="secret")
    page.page.state.gathering = StoreOverview()
    try:
        yield connected
    finally:
        connected.query(STORE, "drop owned by page_viewer; drop role page_viewer")


def test_a_viewer_reads_subscriptions_and_dead_letters(page: PageServer, read_by_viewer: World) -> None:
    document = page.client("viewer").get("/relaybox/api/streams").json()
    (subscription,) = document["subscriptions"]
    (dead_letter,) = document["dead_letters"]
    acknowledged = read_by_viewer.value(STORE, "select message_id::text from relaybox_internal.log where log_position = 2")
    assert (subscription["done_stream_position"], subscription["done_message_id"]) == (2, acknowledged)
    assert (dead_letter["reason"], dead_letter["stream_position"], dead_letter["payload"]) == ("refused", 1, None)
    assert (document["silent"], document["unread"]) == ([], {})
    shown = page.client("viewer").get("/relaybox/streams").text
    assert "does not answer" not in shown
    assert "billing" in shown


def test_a_refused_right_is_not_shown_as_silence(
    page: PageServer, read_by_viewer: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a store that was not read shown as one without subscriptions."""
    read_by_viewer.query(STORE, "revoke select on relaybox.subscriptions from relaybox_viewer")
    shown = page.client("viewer").get("/relaybox/streams").text
    assert f"Store {STORE} may not be read by the page&#39;s login" in shown
    assert "If it has the role, grant the role what was revoked." in shown
    assert "does not answer" not in shown
    assert "<p>None.</p>" not in shown
    assert '<p class="well">' not in shown
    assert f"None. {STORE} not read." in shown
    document = page.client("viewer").get("/relaybox/api/streams").json()
    assert (document["silent"], list(document["unread"])) == ([], [STORE])
    (logged, *_) = (line for line in caplog.messages if line.startswith("streams_not_read"))
    assert f"store={STORE}" in logged
    assert "permission denied" in logged
    assert "grant it to login page_viewer" in logged
