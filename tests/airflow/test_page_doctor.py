"""What doctor finds, on the page: per store, for who may read its hops, as the page's login sees it, and without delaying other pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from relaybox.airflow.page import store_overview, store_reports
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.documents.page import PageDoctorDocument
from tests.airflow.connections import change_connection
from tests.airflow.page_client import PageServer
from tests.airflow.page_users import SomeHops, seen_by
from tests.support.patience import patience
from tests.support.world import World, wait_until

SPOILED = (
    "create function public.watch() returns event_trigger language plpgsql as $$ begin end $$",
    'create event trigger "<b>[/x]" on ddl_command_end execute function public.watch()',
    "alter table relaybox_internal.log_1_s000000 set unlogged",
)


def reports(page: PageServer) -> dict[str, Any]:
    """By store, once all of them have been examined."""
    found: dict[str, Any] = {}

    def all_have_answered() -> bool:
        answer = page.client("viewer").get("/relaybox/api/doctor")
        document = PageDoctorDocument.model_validate_json(answer.content)
        found.update({report["store"]: report for report in answer.json()["stores"]})
        return not document.waiting

    wait_until(all_have_answered, "every store is examined")
    return found


def test_each_store_shows_its_worst_severity_and_what_to_do(page: PageServer, connected: World) -> None:
    """The worst store first, its worst result first; names are escaped; what is ok is only counted."""
    for statement in SPOILED:
        connected.query("hub", statement)
    found = reports(page)
    assert {store: report["severity"] for store, report in found.items()} == {
        "hub": "error",
        "airline": "notice",
        "analytics": "notice",
    }
    assert [(one["check"], one["severity"]) for one in found["hub"]["results"][:2]] == [
        ("unlogged", "error"),
        ("event_triggers", "warning"),
    ]
    assert found["hub"]["ok_count"] > 20
    shown = page.client("viewer").get("/relaybox/doctor").text
    assert shown.index('data-store="hub"') < shown.index('data-store="airline"')
    assert '<article class="finding stuck" data-check="unlogged">' in shown
    assert "alter table relaybox_internal.log_1_s000000 set logged;" in shown
    assert "&lt;b&gt;[/x]" in shown
    assert "<b>[/x]" not in shown
    assert 'href="/relaybox/doctor#hub"' in page.client("viewer").get("/relaybox/map").text


def test_a_user_sees_the_stores_of_hops_that_the_user_may_read(page: PageServer, connected: World) -> None:
    """And no result that can name another hop: who may read one hop of hub does not see what hub says of the other one."""
    connected.query("hub", "update relaybox_internal.hop_out set hop = 'gone/9'")
    assert "flights/2 out" in str(reports(page)["hub"])
    with seen_by(page, SomeHops("flights/1")) as client:
        document = client.get("/relaybox/api/doctor").json()
        shown = client.get("/relaybox/doctor").text
    assert {report["store"]: report["is_whole"] for report in document["stores"]} == {"airline": True, "hub": False}
    assert "flights/2" not in shown + str(document)
    assert "Results that can name hops that you may not read are left out" in shown
    with seen_by(page, SomeHops()) as client:
        assert client.get("/relaybox/api/doctor").json() == {"severity": "ok", "stores": [], "waiting": []}


def test_the_login_of_the_page_is_a_viewer_and_no_right_that_it_lacks_is_an_error(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected.query("hub", "create role page_viewer login password 'secret' in role relaybox_viewer")
    try:
        change_connection(monkeypatch, "RELAYBOX_HUB", login="page_viewer", password="secret")
        page.page.state.gathering = StoreOverview()
        hub = reports(page)["hub"]
    finally:
        connected.query("hub", "drop role page_viewer")
    assert hub["severity"] == "notice", hub
    assert {"owner", "login"} <= {one["check"] for one in hub["results"]}


def test_a_store_that_does_not_answer_hides_no_other_and_names_no_host(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    change_connection(monkeypatch, "RELAYBOX_HUB", port=1)
    page.page.state.gathering = StoreOverview()
    found = reports(page)
    (result,) = found["hub"]["results"]
    assert (result["check"], result["severity"]) == ("connection", "error")
    assert result["what"] == "It can't be read: it does not answer."
    assert found["hub"]["clock_ahead_seconds"] is None
    assert found["airline"]["severity"] == "notice"
    assert "127.0.0.1" not in page.client("viewer").get("/relaybox/doctor").text


def test_a_store_is_examined_once_for_all_who_look(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when its report is too old."""
    examined: list[str] = []
    examine = store_overview.examine_stores

    def count(stores: Any, routes: Any) -> Any:
        examined.extend(store.name for store in stores)
        return examine(stores, routes)

    monkeypatch.setattr(store_overview, "examine_stores", count)
    for _ in range(3):
        reports(page)
    assert sorted(examined) == ["airline", "analytics", "hub"]
    monkeypatch.setattr(store_overview, "REPORT_SECONDS", 0.0)
    page.page.state.gathering = StoreOverview()
    reports(page)
    reports(page)
    wait_until(lambda: len(examined) > 6, "the stores are examined again")


@contextmanager
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every examination begins and does not end."""
    go_on = threading.Event()
    monkeypatch.setattr(store_overview, "examine_stores", lambda *_: go_on.wait(patience(60)))
    try:
        yield
    finally:
        go_on.set()


def test_an_examination_that_hangs_delays_no_other_page(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor page itself says after a moment which stores are still examined; the others answer beside it."""
    client = page.client("viewer")
    client.get("/relaybox/api/status")
    with held_up(monkeypatch):
        clients = [page.client("viewer") for _ in range(4)]  # each is for one thread
        with ThreadPoolExecutor(len(clients)) as pool:
            asked = [pool.submit(own.get, "/relaybox/api/doctor") for own in clients]
            began = time.monotonic()
            others = [client.get(f"/relaybox/{path}").status_code for path in ("map", "stuck", "streams", "api/hops/flights/1")]
            took = time.monotonic() - began
            answers = [one.result(patience(30)) for one in asked]  # raises what the request raised
    assert others == [200] * 4
    assert took < patience(store_reports.FIRST_REPORT_SECONDS * 4)
    told = [(answer.status_code, sorted(answer.json().get("waiting", answer.json()))) for answer in answers]
    assert told == [(200, sorted(connected.routes.stores))] * 4
