"""What a request may hold that is no text or no number: it is refused, never an error of the server; and whose environment it is."""

from __future__ import annotations

import asyncio
import os

import pytest
from starlette.types import Message

from relaybox.airflow.page import bodies, kept_answers, store_overview, threads, turns
from relaybox.airflow.page.asgi import MountedPage
from tests.airflow.page_client import PageServer
from tests.airflow.page_routes import every_route
from tests.support.patience import patience

TEXTS = ["\0", "a\0b", "\ufffd", "NaN", "1e400", "-1e400", "Infinity", "9" * 5000, "ñ" * 60, "%", "[", "\x1b", "' or 1=1 --"]
NAMES = [
    "minutes",
    "moved_by",
    "message",
    "sender",
    "index",
    "dag",
    "store",
    "subscription",
    "dead_letter_id",
    "through",
    "show",
    "health",
]
BODIES = [
    b'{"store": "hub", "subscription": "billing", "start": "1", "reason": "why", "rows_per_second": NaN}',
    b'{"store": "hub", "subscription": "billing", "start": "1", "reason": "why", "rows_per_second": 1e400}',
    b'{"store": "hub", "subscription": "billing", "start": "1\\u0000", "reason": "why"}',
    b'{"store": "hub", "subscription": "billing", "start": "\\ud800", "reason": "why"}',
    b'{"store": "hub", "subscription": "billing", "start": "1", "reason": "\\udfff\\udfff\\udfff"}',
    b'{"store": "hub", "subscription": "billing", "dead_letter_id": 1e400, "reason": "why"}',
    b'{"sender": "\\u0000", "reason": "why"}',
    b'{"sender": "\\ud800", "reason": "why", "through": Infinity}',
    b'{"\\ud800": 1}',
    b"\xff\xfe",
    b"NaN",
    b"[" * 20_000,
    b"",
]
LIMITS = (
    (kept_answers, "FIRST_ANSWER_SECONDS"),
    (store_overview, "ASK_SECONDS"),
    (threads, "PATIENCE_SECONDS"),
    (turns, "PATIENCE_SECONDS"),
)
HOSTS = ["[", "[::1", "a b", "a/b", "a:b:c", "example.org:99999999", "\u00e4", "", "@", "?", "%zz", "xn--"]


@pytest.fixture(autouse=True)
def page_waits_as_long_as_the_machine_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is too busy to answer says 503, which is no error of a request's values."""
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, patience(getattr(module, name)))


def test_odd_values_in_queries_are_no_error_of_the_server(page: PageServer) -> None:
    """Each in each field of each route that reads."""
    client = page.client("viewer")
    for path in sorted({path.partition("?")[0] for method, path in every_route(page.page) if method == "GET"}):
        for text in TEXTS:
            answer = client.get(path, params=dict.fromkeys(NAMES, text))
            assert answer.status_code < 500, (path, text, answer.text)
            for name in ("moved_by", "sender", "dag"):
                assert client.get(path, params={name: text, "index": "1"}).status_code < 500, (path, name, text)


def test_odd_values_in_paths_and_bodies_are_no_error_of_the_server(page: PageServer) -> None:
    client = page.client("oncall")
    for path in (
        "hops/%00/1",
        "hops/flights/1e400",
        "order/replay/%ED%A0%80",
        "runbooks/%00",
        "static/%00",
        "api/hops/flights/9999999999",
    ):
        assert client.get(f"/relaybox/{path}").status_code in (404, 422), path
    for path in ("replay/count", "replay", "redrive", "skip"):
        for body in BODIES:
            answer = client.post(
                f"/relaybox/api/routes/flights/{path}", content=body, headers={"content-type": "application/json"}
            )
            assert 400 <= answer.status_code < 500, (path, body[:80], answer.text)


def test_odd_hosts_and_origins_are_no_error_of_the_server(page: PageServer) -> None:
    for host in HOSTS:
        headers = {"host": host.encode()}
        for method, path in (
            ("GET", "/relaybox/map"),
            ("POST", "/relaybox/api/hops/flights/1/run"),
            ("POST", "/relaybox/api/hops/flights/1/pause"),
        ):
            answer = page.client("oncall").request(method, path, headers=headers)
            assert answer.status_code < 500, (host, path, answer.text)
        client = page.client("oncall")
        del client.headers["sec-fetch-site"]
        answer = client.post("/relaybox/api/hops/flights/1/run", headers={"origin": f"http://{host}".encode()})
        assert answer.status_code == 403, (host, answer.text)


def test_a_body_that_never_ends_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read before the request takes a turn, also from callers who may not see the page; then it is refused."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.5)
    mounted, answers = MountedPage(), []

    async def send(message: Message) -> None:
        answers.append(message.get("status"))

    async def post(*chunks: bytes) -> None:
        given = iter(chunks)

        async def receive() -> Message:
            for chunk in given:
                return {"type": "http.request", "body": chunk, "more_body": True}
            return await asyncio.Future()

        await mounted({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)

    async def scenario() -> None:
        slow = asyncio.create_task(post(b"{"))
        await asyncio.sleep(0)
        async with mounted.turns.turn():
            assert not slow.done()
        await slow
        await post(b"x" * 50_000, b"x" * 50_000)

    asyncio.run(scenario())
    assert [status for status in answers if status] == [408, 413]


def test_the_api_servers_environment_stays_airflows_own(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A metadata URL with `service=` reads the service file that the API server was started with."""
    monkeypatch.setenv("PGSERVICEFILE", "/etc/airflow/pg_service.conf")
    before = dict(os.environ)
    for _, path in [(method, path) for method, path in every_route(page.page) if method == "GET"]:
        assert page.client("viewer").get(path).status_code in (200, 303, 404), path
    assert [hop["health"] for hop in page.client("viewer").get("/relaybox/api/status").json()["hops"]] == ["ok", "ok"]
    assert dict(os.environ) == before
