"""The Relaybox page: who may see and do what, what it shows, and what it keeps to itself."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from relaybox.airflow.page.app import HEADERS
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.monitoring import hop_findings
from tests.airflow.connections import change_connection
from tests.airflow.page_client import ORIGIN, PageServer, register_dags, token_of
from tests.airflow.page_routes import every_route
from tests.support.breaking import copy_first_slices
from tests.support.services import add_route
from tests.support.world import World, insert, routes_file


@pytest.fixture
def page(page: PageServer, connected: World) -> PageServer:
    """The page over this test's stores, which hold one message that has arrived at the last of them."""
    connected.send("first")
    connected.transfer_all()
    connected.settle_all()
    return page


def test_the_page_has_no_route_but_those_that_are_walked(page: PageServer) -> None:
    """Nothing is mounted beside them; of FastAPI's own documentation, which needs no login, nothing is on."""
    assert [route for route in page.page.routes if not isinstance(route, APIRoute)] == []
    for path in ("/docs/oauth2-redirect", "/redoc", "/", "/nothing"):
        assert page.client("operator").get(f"/relaybox{path}").status_code == 404


def test_every_route_needs_a_login(page: PageServer) -> None:
    for method, path in every_route(page.page):
        assert page.client(None).request(method, path).status_code == 401, path
        assert page.client(None, authorization="Bearer nonsense").request(method, path).status_code == 403, path


def test_every_route_needs_a_right(page: PageServer) -> None:
    for method, path in every_route(page.page):
        assert page.client("nobody").request(method, path).status_code == 403, path


def test_a_viewer_reads_everything_and_changes_nothing(page: PageServer) -> None:
    for method, path in every_route(page.page):
        code = page.client("viewer").request(method, path).status_code
        assert code in ((200, 303) if method == "GET" else (403,)), path


FOREIGN = {
    "cross-site": {"sec-fetch-site": "cross-site"},
    "same-site": {"sec-fetch-site": "same-site"},
    "forged origin": {"sec-fetch-site": "cross-site", "origin": ORIGIN},
    "other origin": {"origin": "http://elsewhere.example"},
    "null origin": {"origin": "null"},
    "cookie alone": {},
}


def test_what_another_site_posts_is_refused(page: PageServer) -> None:
    """With the cookie of a user who may do it."""
    writes = [(method, path) for method, path in every_route(page.page) if method != "GET"]
    assert len(writes) >= 3
    for case, headers in FOREIGN.items():
        client = page.client("operator")
        del client.headers["sec-fetch-site"]
        client.headers.update(headers)
        for method, path in writes:
            answer = client.request(method, path)
            assert (answer.status_code, answer.json()) == (403, {"detail": "This request came from another site."}), (case, path)


def test_a_program_that_sends_its_token_itself_may_post(page: PageServer, connected: World) -> None:
    """No browser adds an Authorization header on its own."""
    register_dags(connected.path)
    client = TestClient(page.app, headers={"authorization": f"Bearer {token_of('oncall')}"})
    assert client.post("/relaybox/api/hops/flights/1/pause").status_code == 200
    assert client.post("/relaybox/api/hops/flights/1/unpause", headers={"origin": ORIGIN}).status_code == 200


def test_every_answer_says_what_a_browser_may_do_with_it(page: PageServer) -> None:
    """Also a refusal."""
    for user in (None, "nobody", "viewer"):
        for method, path in every_route(page.page):
            answer = page.client(user).request(method, path)
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, path


def test_run_now_starts_a_run_that_airflow_audits(page: PageServer, connected: World) -> None:
    """By the name of who pressed it."""
    register_dags(connected.path)
    client = page.client("oncall")
    answer = client.post("/relaybox/api/hops/flights/2/run")
    assert answer.status_code == 201
    run = client.get(f"/api/v2/dags/relaybox_transfer__flights_2/dagRuns/{answer.json()['run_id']}").json()
    assert (run["run_type"], run["triggering_user_name"]) == ("manual", "oncall")
    assert run["note"] == "Run now, from the page of hop flights/2"
    events = page.client("operator").get("/api/v2/eventLogs?event=trigger_dag_run&order_by=-event_log_id").json()["event_logs"]
    assert (events[0]["dag_id"], events[0]["owner"]) == ("relaybox_transfer__flights_2", "oncall")


def test_pause_stops_both_dags_of_a_hop_and_unpause_starts_them(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paused hop is shown once: that nobody runs it is what the pause says."""
    monkeypatch.setattr(hop_findings, "UNDRIVEN_SECONDS", 0.0)
    register_dags(connected.path)
    client = page.client("oncall")

    def paused() -> dict[str, bool]:
        dags = client.get("/api/v2/dags?dag_id_pattern=flights_1").json()["dags"]
        return {dag["dag_id"]: dag["is_paused"] for dag in dags}

    assert client.post("/relaybox/api/hops/flights/1/pause").json()["said"] == "Hop flights/1 is paused."
    assert paused() == {"relaybox_transfer__flights_1": True, "relaybox_confirm__flights_1": True}
    connected.send("waits")
    shown = client.get("/relaybox/stuck").text
    assert "The DAGs of hop flights/1 are paused: no run starts (waiting: 1 message)." in shown
    assert 'data-post="/relaybox/api/hops/flights/1/unpause"' in shown
    assert shown.count("The DAGs of hop flights/1 are paused") == 1
    assert 'data-kind="not_running"' not in shown
    client.post("/relaybox/api/hops/flights/1/unpause")
    assert set(paused().values()) == {False}


def test_a_dag_that_airflow_does_not_know_is_said_so(page: PageServer, connected: World) -> None:
    """Airflow's own refusal, in our words: the route is newer than the DAG processor's last look."""
    add_route(connected.path, "strays", topics=["strays"], path=["airline", "hub"])
    answer = page.client("oncall").post("/relaybox/api/hops/strays/1/run")
    assert answer.status_code == 404
    assert "Airflow does not know this DAG yet" in answer.json()["detail"]


def test_the_map_shows_every_hop_with_its_numbers(page: PageServer, connected: World) -> None:
    connected.send("b", "c")
    shown = page.client("viewer").get("/relaybox/map").text
    assert shown.count('class="card busy"') == 1
    assert shown.count('class="card ok"') == 1
    assert ">lag 2, " in shown
    assert "R 1 UR 1" in shown
    assert "airline → hub → analytics" in shown
    assert "exactly once" in shown


def test_a_hop_shows_its_charts_its_batches_and_who_moved_them(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch leads to its DAG run and to its Spark application."""
    connected.query(
        "airline",
        "update relaybox_internal.attempt set application = 'local-<1>', "
        "recorded_by = 'relaybox_transfer__flights_1 manual__2026-01-01T00:00:00+00:00'",
    )
    shown = page.client("viewer").get("/relaybox/hops/flights/1?minutes=15").text
    assert shown.count("<td>local-&lt;1&gt;</td>") == 1  # no link: nobody said where Spark's pages are
    monkeypatch.setenv("RELAYBOX_SPARK_UI", "http://history:18080/")
    shown = page.client("viewer").get("/relaybox/hops/flights/1?minutes=15").text
    address = "http://history:18080/history/local-%3C1%3E/"
    assert f'<a data-leave href="{address}">local-&lt;1&gt;</a>' in shown
    drawn = shown[shown.index('class="timeline"') :]
    assert f'<a href="{address}" data-leave=""><rect' in drawn
    assert (
        '<a href="/dags/relaybox_transfer__flights_1/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00" data-leave=""><text' in drawn
    )
    newest = page.client("viewer").get("/relaybox/api/hops/flights/1").json()["batches"][0]
    assert (newest["application"], newest["application_address"]) == ("local-<1>", address)
    assert shown.count('class="bar"') == 1
    assert shown.count('class="step settled"') == 1
    assert 'href="/dags/relaybox_transfer__flights_1/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00"' in shown
    of_run = page.client("viewer").get("/relaybox/hops/flights/1", params={"moved_by": "somebody <b>else</b>"}).text
    assert "moved by somebody &lt;b&gt;else&lt;/b&gt;" in of_run
    assert 'class="step' not in of_run


def test_a_route_that_settles_what_is_processed_shows_by_whom(page: PageServer, connected: World) -> None:
    """In the numbers, the legend, the bars and the table of its last hop; other hops have no such column."""
    connected.change_route(policy="processed", processed_by=["billing"])
    connected.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    connected.send("one")
    connected.transfer_all()
    connected.query("analytics", "select relaybox.ack('billing', max(stream_position)) from relaybox.fetch('billing')")
    connected.settle_all()
    shown = page.client("viewer").get("/relaybox/hops/flights/2").text
    assert "<dt>processed through</dt><dd>2</dd>" in shown  # with the message that was there
    assert "processed by billing" in shown
    assert "<th>processed</th>" in shown
    assert 'class="step processed"' in shown
    assert "processed" not in page.client("viewer").get("/relaybox/hops/flights/1").text
    newest = page.client("viewer").get("/relaybox/api/hops/flights/2").json()["batches"][0]
    assert newest["processed_at"] <= newest["settled_at"]


def test_the_documents_of_the_api_have_stable_keys(page: PageServer, monkeypatch: pytest.MonkeyPatch, connected: World) -> None:
    monkeypatch.setattr(hop_findings, "UNDRIVEN_SECONDS", 0.0)
    connected.send("waits")
    client = page.client("viewer")
    status = client.get("/relaybox/api/status").json()
    assert set(status) == {"measured_at", "age_seconds", "hops", "stuck"}
    assert {"hop", "health", "messages_per_second", "transfer_dag", "confirm_dag", "lag_messages"} < set(status["hops"][0])
    assert [(one["kind"], one["hop"], one["run_helps"]) for one in status["stuck"]] == [("not_running", "flights/1", True)]
    hop = client.get("/relaybox/api/hops/flights/1").json()
    assert set(hop) == {"hop", "measured_at", "interval_seconds", "intervals", "batches", "forecast", "errors"}
    assert hop["forecast"]["backlog"] == 1
    found = client.get("/relaybox/api/where?sender=UA&index=1").json()["messages"]
    assert [hop["stage"] for hop in found[0]["traces"][0]["hops"]] == ["settled", "settled"]


def test_a_statement_of_an_application_is_escaped_and_shown_to_operators_only(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold anything, a customer's data or a script."""
    monkeypatch.setattr("relaybox.monitoring.overview.start_overview.__kwdefaults__", {"open_for_seconds": 0.0})
    with connected.session() as producer:
        insert(producer, "kept back")
        with producer.cursor() as cursor:
            cursor.execute("select '<script>alert(1)</script>', 'card 4711'")
        shown = {user: page.client(user).get("/relaybox/stuck").text for user in ("viewer", "oncall")}
        documents = {user: page.client(user).get("/relaybox/api/status").text for user in ("viewer", "oncall")}
        producer.rollback()
    assert all("One transaction has sent messages at airline and not ended" in text for text in shown.values())
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown["oncall"]
    assert all("<script>alert" not in text for text in shown.values())
    assert "card 4711" in documents["oncall"]
    assert "card 4711" not in shown["viewer"] + documents["viewer"]


def test_a_gap_of_a_sender_is_explained_with_what_to_do(page: PageServer, connected: World) -> None:
    """Index 1 has not come: 2 waits."""
    add_route(connected.path, "meters", topics=["meters"], path=["airline", "hub"], order="fifo")
    connected.register()
    connected.query(
        "airline", "insert into relaybox_internal.sender (origin, sender, epoch, kind) values ('airline', 'meter', 1, 'gapless')"
    )
    connected.query(
        "airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('meters', 'meter', 2, 'second')"
    )
    connected.transfer(connected.routes.hop("meters/1"))
    client = page.client("viewer")
    for path in ("/relaybox/streams", "/relaybox/stuck"):
        shown = client.get(path).text
        assert "Stream meters at hub holds back messages of sender meter, epoch 1: index 1 is missing." in shown, path
        assert "relaybox skip meters meter" in shown, path
        assert 'href="/relaybox/runbooks/sender-gap"' in shown, path
    held = client.get("/relaybox/api/streams").json()["held"]
    assert [(one["store"], one["sender"], one["held_count"]) for one in held] == [("hub", "meter", 1)]


def test_a_dead_letter_is_escaped_and_its_payload_is_for_operators(page: PageServer, connected: World) -> None:
    connected.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    connected.send("<img src=x onerror=alert(1)> card 4711")
    connected.transfer_all()
    connected.query(
        "analytics",
        "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason, detail) "
        "select l.stream_id, l.log_id, 2, 'refused', '<b>why</b>' from relaybox_internal.stream_log l",
    )
    shown = {user: page.client(user).get("/relaybox/streams").text for user in ("viewer", "oncall")}
    assert all("billing" in text and "refused" in text for text in shown.values())
    assert "&lt;img src=x onerror=alert(1)&gt; card 4711" in shown["oncall"]
    assert "&lt;b&gt;why&lt;/b&gt;" in shown["oncall"]
    documents = page.client("viewer").get("/relaybox/api/streams").text
    assert "card 4711" not in shown["viewer"] + documents


DETACHED = """
    insert into relaybox_internal.detached_segment
        (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by, moved_by, moved_at)
    select i.log_id, n * 10, n * 10 + 9, 'log_1_s' || n, case when n < 3 then 'detached' else 'attached' end, '/srv/private/' || n, 10, 0,
        array['billing', 'audit' || n], 'test', 'test', timestamptz '2026-07-01Z' + n * interval '1 day'
    from relaybox_internal.hop_in i cross join generate_series(1, 3) n
"""


def test_what_is_detached_is_shown_with_the_command_that_brings_it_back(page: PageServer, connected: World) -> None:
    """Beside the subscriptions, with what is stuck, and at its hop; not where nothing is detached, nor to who may not read the hop."""
    client, gathering = page.client("viewer"), page.page.state.gathering
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")
    pages = ("/relaybox/streams", "/relaybox/stuck", "/relaybox/hops/flights/1")
    assert not [path for path in pages if "etached" in client.get(path).text]
    connected.query("hub", DETACHED)
    connected.query("hub", "update relaybox_internal.stream set first_kept_stream_position = 2")
    gathering.forget()
    for path in pages:
        shown = client.get(path).text
        assert (
            "Messages of the log of hop flights/1 at hub are detached, 2 segments in files: only audit1, audit2, billing" in shown
        ), path
        assert "<dt>since</dt><dd>2026-07-02 00:00:00Z</dd>" in shown, path
        assert "<dt>messages</dt><dd>20</dd>" in shown, path
        assert "Repair the consumer. Then run: relaybox attach hub flights/1" in shown, path
        assert 'href="/relaybox/runbooks/detached-messages"' in shown, path
        assert "/srv/private" not in shown, path
    assert '<span class="tag note">1 detached</span>' in client.get("/relaybox/streams").text
    (found,) = client.get("/relaybox/api/status").json()["stuck"]
    assert (found["kind"], found["hop"], found["message_count"]) == ("messages_detached", "flights/1", 20)
    assert asyncio.run(gathering.overview(OneHop("flights/2"))).findings == ()


def test_a_hop_of_no_route_is_shown_to_who_may_read_its_dag_until_it_is_retired(page: PageServer, connected: World) -> None:
    """With the command that tells how much it keeps, and gives it up."""
    client, gathering = page.client("viewer"), page.page.state.gathering
    add_route(connected.path, "strays", topics=["strays"], path=["airline", "hub"])
    connected.register()
    said = "relaybox.yaml no longer contains hop strays/1 from airline to hub. Messages that it has not moved are kept."
    assert said not in client.get("/relaybox/stuck").text
    connected.change_route()
    gathering.forget()
    shown = client.get("/relaybox/stuck").text
    assert said in shown
    assert "See how many: relaybox retire strays/1." in shown
    assert 'href="/relaybox/runbooks/growing-store"' in shown
    assert asyncio.run(gathering.overview(OneHop("flights/1"))).findings == ()
    assert [finding.hop for finding in asyncio.run(gathering.overview(OneHop("strays/1"))).findings] == ["strays/1"]
    connected.query("airline", "select relaybox_internal.retire_hop('strays/1', 'nobody reads it', 'test')")
    gathering.forget()
    assert said not in client.get("/relaybox/stuck").text


class OneHop:
    """The rights of who may read one hop's DAG."""

    def __init__(self, hop: str) -> None:
        self._hop = hop

    def may_read_named(self, hop: str) -> bool:
        return hop == self._hop

    def may_read(self, hop: Any) -> bool:
        return self.may_read_named(hop.name)

    may_run = may_read


def test_a_replay_is_counted_before_it_is_started(page: PageServer, connected: World) -> None:
    """The count starts no run. The button does, with the form's fields as parameters; Airflow's audit log has it."""
    register_dags(connected.path)
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")
    client = page.client("oncall")
    assert '/action/replay/flights?store=hub&amp;subscription=billing">Replay</a>' in client.get("/relaybox/streams").text
    form = client.get("/relaybox/action/replay/flights?store=hub&subscription=billing").text
    assert "<option selected>hub</option>" in form
    order = {
        "store": "hub",
        "subscription": "billing",
        "start": "earliest",
        "through": "",
        "rows_per_second": "10",
        "reason": "audit",
    }
    counted = client.post("/relaybox/api/routes/flights/replay/count", json=order).json()
    assert re.fullmatch(r"Stream positions 1 to 1: 1 message, \d+ bytes, about 0.1 s. Nothing was changed.", counted["said"])
    runs = "/api/v2/dags/relaybox_replay__flights/dagRuns"
    assert client.get(runs).json()["total_entries"] == 0
    started = client.post("/relaybox/api/routes/flights/replay", json=order)
    assert started.status_code == 201
    (run,) = client.get(runs).json()["dag_runs"]
    assert (run["dag_run_id"], run["triggering_user_name"]) == (started.json()["run_id"], "oncall")
    assert run["conf"] == {
        "store": "hub",
        "subscription": "billing",
        "start": "earliest",
        "rows_per_second": 10,
        "reason": "audit",
    }


WRONG_ORDERS = [
    ("replay/count", {"subscription": "nobody", "start": "1"}, "store hub has no subscription nobody to stream flights."),
    ("replay/count", {"subscription": "billing", "start": "soon"}, "is no start"),
    ("replay", {"subscription": "billing", "start": "1", "reason": "  "}, "reason"),
    ("replay", {"subscription": "billing", "start": "1", "reason": "why", "store": "airline"}, "arrives at: hub, analytics"),
    ("redrive", {"subscription": "b'; drop table", "reason": "why"}, "subscription"),
    ("redrive", {"subscription": "billing", "dead_letter_id": 0, "reason": "why"}, "dead_letter_id"),
]


def test_a_form_that_makes_no_sense_starts_nothing_and_says_why(page: PageServer, connected: World) -> None:
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")
    for path, order, said in WRONG_ORDERS:
        answer = page.client("oncall").post(f"/relaybox/api/routes/flights/{path}", json={"store": "hub", **order})
        assert (answer.status_code, said in str(answer.json()["detail"])) == (422, True), answer.text
    assert page.client("oncall").post("/relaybox/api/routes/trains/skip", json={}).status_code == 404


def test_a_replay_from_a_detached_stream_position_names_the_command_that_brings_it_back(
    page: PageServer, connected: World
) -> None:
    """And without the directory of the files, which is in the API server's log only."""
    connected.send("a", "b")
    connected.transfer()
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")
    connected.query("hub", DETACHED)
    connected.query("hub", "update relaybox_internal.stream set first_kept_stream_position = 2")
    order = {"store": "hub", "subscription": "billing", "start": "1"}
    answer = page.client("oncall").post("/relaybox/api/routes/flights/replay/count", json=order)
    assert answer.status_code == 409, answer.text
    assert "relaybox attach hub flights/1" in answer.json()["detail"]
    assert "/srv/private" not in answer.text


def test_a_batch_left_in_the_middle_says_what_to_press(
    page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hop_findings, "UNDRIVEN_SECONDS", 0.0)
    connected.change_route(limits={"batch_rows": 30, "slice_rows": 10})
    connected.send_many(30)
    copy_first_slices(connected.first_hop, 1)
    oncall, viewer = (page.client(user).get("/relaybox/stuck").text for user in ("oncall", "viewer"))
    assert "is unfinished: slices 2, 3" in oncall
    assert '<button type="button" data-post="/relaybox/api/hops/flights/1/run">Run now</button>' in oncall
    assert 'data-post="/relaybox/api/hops/flights/1/run" disabled' in viewer


def test_no_answer_tells_hosts_statements_or_paths(page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a store is down, of no route, to nobody."""
    change_connection(monkeypatch, "RELAYBOX_HUB", port=1)
    page.page.state.gathering = StoreOverview()
    for method, path in every_route(page.page):
        if method != "GET" or "/static/" in path or "/runbooks/" in path:
            continue
        answer = page.client("operator").request(method, path)
        assert answer.status_code in (200, 303, 503), path
        for secret in (
            "127.0.0.1",
            "port 1",
            "psycopg2",
            "select ",
            "/proc/",
            str(connected.path.parent),
            "Traceback",
            "service",
        ):
            assert secret not in _without_advice(answer.text), (path, secret)
    assert "Store hub can&#39;t be read: it does not answer." in page.client("viewer").get("/relaybox/stuck").text
    assert 'class="store silent"' in page.client("viewer").get("/relaybox/map").text


def _without_advice(text: str) -> str:
    """`or the service file` is advice, and no path; a field to choose from is no statement."""
    return text.replace("or the service file", "").replace("<select ", "")


def test_a_store_without_a_connection_hides_no_other(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_RELAYBOX_ANALYTICS")
    page.page.state.gathering = StoreOverview()
    status = page.client("viewer").get("/relaybox/api/status").json()
    assert [hop["health"] for hop in status["hops"]] == ["ok", "silent"]
    assert status["hops"][1]["errors"] == ["its connection is missing, or wrong"]


def test_a_changed_connection_is_used_without_a_restart(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that libpq reads is replaced; nothing of it is on a disk."""
    gathering = page.page.state.gathering
    assert page.client("viewer").get("/relaybox/api/status").json()["hops"][0]["health"] == "ok"
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", port=1)
    gathering.forget()
    assert page.client("viewer").get("/relaybox/api/status").json()["hops"][0]["health"] == "silent"


def test_a_message_is_found_by_id_and_by_sender_and_index(page: PageServer, connected: World) -> None:
    message_id = connected.value("airline", "select message_id from relaybox.outbox")
    client = page.client("viewer")
    for query in (f"message={message_id}", "sender=UA&index=1"):
        shown = client.get(f"/relaybox/where?{query}").text
        assert shown.count(str(message_id)) >= 1
        assert "flights/2: arrived at position 1" in shown
        assert "flights/2: delivered at stream position 1 of stream flights" in shown
        assert "flights/1: settled" in shown


FRUITLESS = [
    ("message=nonsense", 422, "A message id is a UUID"),
    ("sender=UA", 422, "A sender needs an index with it"),
    ("sender=UA&index=0", 422, "An index is a whole number from 1 on."),
    ("sender=UA&index=9", 404, "No committed message is found by this."),
    ("message=0198c0de-0000-7000-8000-000000000000", 404, "No committed message is found by this."),
]


def test_a_search_that_finds_nothing_says_why(page: PageServer) -> None:
    """In JSON for programs, as a page for people."""
    client = page.client("viewer")
    for query, code, said in FRUITLESS:
        answer = client.get(f"/relaybox/api/where?{query}")
        assert (answer.status_code, said in answer.json()["detail"]) == (code, True), query
        shown = client.get(f"/relaybox/where?{query}", headers={"accept": "text/html"})
        assert (shown.status_code, f'<p class="message">{said}' in shown.text) == (code, True), query


def test_the_tab_of_a_dag_leads_to_its_hop(page: PageServer) -> None:
    client = page.client("viewer")
    answer = client.get("/relaybox/of-dag?dag=relaybox_confirm__flights_2")
    assert (answer.status_code, answer.headers["location"]) == (303, "/relaybox/hops/flights/2")
    assert "belongs to no hop, derivation or export of Relaybox" in client.get("/relaybox/of-dag?dag=reports").text


def test_hops_that_a_user_may_not_read_are_not_there(page: PageServer) -> None:
    """Of numbers, findings and messages."""
    gathering = page.page.state.gathering
    seen = asyncio.run(gathering.overview(OneHop("flights/1")))
    assert [hop.hop.name for hop in seen.hops] == ["flights/1"]
    assert asyncio.run(gathering.readable_routes(OneHop("flights/1"))) == ()


def test_the_password_of_a_store_is_in_no_answer(page: PageServer) -> None:
    import json
    import os

    password = json.loads(os.environ["AIRFLOW_CONN_RELAYBOX_HUB"])["password"]
    for method, path in every_route(page.page):
        assert password not in page.client("operator").request(method, path).text


def test_a_topic_that_a_store_does_not_move_yet_is_shown_with_the_command(page: PageServer, connected: World) -> None:
    """On the page of its hop too, which can be asked."""
    connected.send("waits", topic="refunds")
    routes_file(connected.path.parent, route={"topics": ["flights", "refunds"]})
    page.page.state.gathering.forget()
    client = page.client("viewer")
    for path in ("stuck", "hops/flights/1"):
        shown = client.get(f"/relaybox/{path}").text
        assert "relaybox.yaml gives hop flights/1 topic refunds, but airline does not move it yet" in shown
        assert "Run: relaybox init" in shown
        assert "can&#39;t be read" not in shown
    hops = {hop["hop"]: hop["health"] for hop in client.get("/relaybox/api/status").json()["hops"]}
    assert hops == {"flights/1": "stuck", "flights/2": "ok"}
