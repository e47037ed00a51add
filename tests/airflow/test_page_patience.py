"""The page and its stores can't hold up Airflow: its threads are not used, nobody waits for ever, and what is old says so."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from statistics import median
from typing import Any

import httpx
import psycopg2
import pytest
from fastapi import HTTPException
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from relaybox.airflow.page import kept_answers, store_overview
from relaybox.airflow.page.kept_answers import KeptAnswer
from relaybox.airflow.page.turns import Turns, without_turn
from relaybox.local.bench.unwell_link import UnwellLink
from relaybox.local.clusters import Cluster
from tests.airflow.connections import change_connection
from tests.airflow.page_client import ORIGIN, PageServer, token_of
from tests.support.freezing import frozen
from tests.support.patience import patience
from tests.support.services import add_route
from tests.support.world import World, wait_until

LOOKS = 50
SAMPLES = 25
PATIENCE_SECONDS = 600.0
MOST_TIMES_SLOWER = 50.0
SHORTEST_SLOWNESS_SECONDS = 1.0
"""Here everybody shares one event loop with those who ask, so the ratio is generous; who waits for a silent store waits for seconds.

`relaybox bench page` measures a real API server.
"""


@pytest.fixture
def link(connected: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnwellLink]:
    """The way to hub."""
    import configparser

    services = configparser.ConfigParser(interpolation=None)
    services.read(os.environ["PGSERVICEFILE"])
    with UnwellLink(services["hub"]["host"], int(services["hub"]["port"])) as link:
        change_connection(monkeypatch, "RELAYBOX_HUB", port=link.port)
        yield link


def _calls(dependant: Dependant) -> Iterator[Any]:
    yield dependant.call
    for inner in dependant.dependencies:
        yield from _calls(inner)


def _is_coroutine(call: Any) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)


def test_nothing_of_the_page_runs_in_airflows_threads(page: PageServer) -> None:
    """FastAPI runs what is no coroutine in the thread pool that Airflow's own endpoints share."""
    found = {
        f"{route.path} {getattr(call, '__qualname__', type(call).__name__)}"
        for route in page.page.routes
        if isinstance(route, APIRoute)
        for call in _calls(route.dependant)
        if not _is_coroutine(call)
    }
    assert found == set()


@contextmanager
def unwell(manner: str, link: UnwellLink, cluster: Cluster) -> Iterator[None]:
    """Hub is silent, or its server frozen."""
    if manner == "frozen":
        with frozen(cluster):
            yield
    else:
        link.change("silent")
        yield


async def _times(client: httpx.AsyncClient) -> list[float]:
    arrival_seq = []
    for _ in range(SAMPLES):
        started = time.monotonic()
        assert (await client.get("/api/v2/version")).status_code == 200
        arrival_seq.append(time.monotonic() - started)
    return arrival_seq


async def _beside_looks(page: PageServer) -> tuple[list[float], list[float], set[int]]:
    """Times of Airflow's version alone, and beside 50 who look at the page all the time; and what these were answered."""
    transport, codes = httpx.ASGITransport(app=page.app), set()
    paths = ("/relaybox/map", "/relaybox/stuck", "/relaybox/streams", "/relaybox/hops/flights/1", "/relaybox/api/status")

    async def look(number: int) -> None:
        while True:
            codes.add((await client.get(paths[number % len(paths)])).status_code)

    async with httpx.AsyncClient(
        transport=transport, base_url=ORIGIN, timeout=PATIENCE_SECONDS, cookies={"_token": token_of("viewer")}
    ) as client:
        await _times(client)
        alone = await _times(client)
        lookers = [asyncio.create_task(look(number)) for number in range(LOOKS)]
        await asyncio.sleep(0)
        beside = await asyncio.wait_for(_times(client), timeout=patience(60))
        for looker in lookers:
            looker.cancel()
        await asyncio.gather(*lookers, return_exceptions=True)
    return alone, beside, codes


@pytest.mark.parametrize("manner", ["silent", "frozen"])
def test_airflows_own_endpoints_keep_their_times_beside_a_store_that_does_not_answer(
    page: PageServer, link: UnwellLink, clusters: Mapping[str, Cluster], manner: str
) -> None:
    """Fifty parallel looks at a page over a store that accepts and never answers, or whose server is stopped."""
    with unwell(manner, link, clusters["hub"]):
        alone, beside, codes = asyncio.run(_beside_looks(page))
    assert codes <= {200, 503}
    assert median(beside) <= max(SHORTEST_SLOWNESS_SECONDS, MOST_TIMES_SLOWER * median(alone)), (
        median(alone),
        median(beside),
        max(beside),
    )


def test_a_store_that_falls_silent_hides_no_other_and_comes_back(page: PageServer, link: UnwellLink) -> None:
    """Beside it nothing hangs; hops that do not touch it are shown as ever; and it is asked again."""
    client = page.client("viewer")

    def health() -> list[str]:
        return [hop["health"] for hop in client.get("/relaybox/api/status").json()["hops"]]

    assert health() == ["ok", "ok"]
    link.change("silent")
    wait_until(lambda: health() == ["silent", "silent"], "hub is shown as silent", deadline_seconds=60)
    shown = client.get("/relaybox/stuck").text
    assert "Store hub can&#39;t be read: it does not answer." in shown
    assert "Store airline" not in shown
    link.change("healthy")
    wait_until(lambda: health() == ["ok", "ok"], "hub is asked again", deadline_seconds=60)


def test_a_silent_store_delays_nothing_but_its_own_rows(
    page: PageServer, connected: World, link: UnwellLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it may take: its rows are shown as they were, and as old as they are, and all others are new."""
    add_route(connected.path, "salaries", topics=["salaries"], path=["airline", "analytics"])
    connected.register()
    client = page.client("viewer")

    def status() -> dict[str, Any]:
        return {hop["hop"]: hop for hop in client.get("/relaybox/api/status").json()["hops"]}

    def health() -> dict[str, str]:
        return {name: hop["health"] for name, hop in status().items()}

    everything_is_well = {"flights/1": "ok", "flights/2": "ok", "salaries/1": "ok"}
    wait_until(lambda: health() == everything_is_well, "every store has answered", deadline_seconds=60)
    monkeypatch.setattr(kept_answers, "KEPT_SECONDS", 3600.0)
    wait_until(lambda: not asking_threads(), "no look is under way", deadline_seconds=60)
    monkeypatch.setattr(kept_answers, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(store_overview, "LOOK_SECONDS", 3600.0)
    silent_since = time.monotonic()
    link.change("silent")
    connected.send("one", topic="salaries")
    wait_until(lambda: health() == {**everything_is_well, "salaries/1": "busy"}, "the other hop is read", deadline_seconds=60)
    connected.send("two", topic="salaries")
    wait_until(lambda: status()["salaries/1"]["lag_messages"] == 2, "and read again", deadline_seconds=60)
    silent_seconds = time.monotonic() - silent_since
    assert client.get("/relaybox/api/status").json()["age_seconds"] >= silent_seconds
    assert client.get("/relaybox/api/streams").json()["silent"] == ["hub"]
    assert client.get("/relaybox/stuck").status_code == 200
    page.page.state.gathering.forget()
    wait_until(
        lambda: health() == {"flights/1": "silent", "flights/2": "silent", "salaries/1": "busy"},
        "a page that has never seen it shows the others",
        deadline_seconds=60,
    )
    link.change("healthy")
    wait_until(lambda: health() == {**everything_is_well, "salaries/1": "busy"}, "it is asked again", deadline_seconds=60)


def test_each_store_is_asked_in_one_session(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at everything, and one at the streams of the stores that have some."""
    wait_until(lambda: not asking_threads(), "no look of an earlier test is under way", deadline_seconds=60)
    client, connect, opened = page.client("viewer"), psycopg2.connect, Counter[str]()

    def counted(**parameters: Any) -> Any:
        opened[str(parameters["port"])] += 1
        return connect(**parameters)

    monkeypatch.setattr(psycopg2, "connect", counted)
    monkeypatch.setattr(kept_answers, "KEPT_SECONDS", 3600.0)
    assert [hop["health"] for hop in client.get("/relaybox/api/status").json()["hops"]] == ["ok", "ok"]
    assert list(opened.values()) == [1, 1, 1]
    assert client.get("/relaybox/api/streams").json()["silent"] == []
    assert sorted(opened.values()) == [1, 2, 2]


def test_a_store_that_refuses_connections_is_asked_once_per_look(
    page: PageServer, link: UnwellLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look has several steps, each with sessions of its own; pages that follow a look take its word for it."""
    wait_until(lambda: not asking_threads(), "no look of an earlier test is under way", deadline_seconds=60)
    client, connect, refused = page.client("viewer"), psycopg2.connect, []

    def counted(**parameters: Any) -> Any:
        try:
            return connect(**parameters)
        except psycopg2.OperationalError:
            refused.append(str(parameters["port"]))
            raise

    monkeypatch.setattr(psycopg2, "connect", counted)
    monkeypatch.setattr(kept_answers, "KEPT_SECONDS", 600.0)
    link.change("dead")
    status = client.get("/relaybox/api/status").json()
    assert [hop["health"] for hop in status["hops"]] == ["silent", "silent"]
    for path in ("stuck", "streams", "hops/flights/1", "api/hops/flights/2"):
        assert client.get(f"/relaybox/{path}").status_code == 200
    assert refused == [str(link.port)]


def asking_threads() -> list[str]:
    """Those of looks, and of the stores that they ask."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(("relaybox-look", "relaybox-ask-"))]


def test_looks_that_do_not_come_back_leave_no_thread(page: PageServer, link: UnwellLink) -> None:
    """Each ends by itself: its socket is cut."""
    client = page.client("viewer")
    client.get("/relaybox/api/status")
    link.change("silent")
    page.page.state.gathering.forget()
    client.get("/relaybox/api/status")
    wait_until(lambda: not asking_threads(), "no thread asks any more", deadline_seconds=60)


def test_an_answer_is_asked_for_once_and_shown_with_its_age_while_the_next_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(kept_answers, "NEXT_ANSWER_SECONDS", 0.05)
    started: list[Future[str]] = []

    def start() -> Future[str]:
        started.append(Future())
        return started[-1]

    async def look() -> None:
        kept = KeptAnswer(start)
        waiting = [asyncio.create_task(kept.get()) for _ in range(500)]
        await asyncio.sleep(0)
        assert len(started) == 1
        started[0].set_result("first")
        assert {(await one).answer for one in waiting} == {"first"}
        old = [await kept.get(), await kept.get()]
        assert [one.answer for one in old] == ["first", "first"]
        assert old[0].age_seconds < old[1].age_seconds
        assert len(started) == 2
        started[1].set_result("second")
        assert (await kept.get()).answer == "second"

    asyncio.run(look())


def test_who_waits_for_a_first_answer_waits_no_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "FIRST_ANSWER_SECONDS", 0.05)
    kept: KeptAnswer[str] = KeptAnswer(Future)
    for _ in range(2):
        with pytest.raises(HTTPException) as refused:
            asyncio.run(kept.get())
        assert refused.value.status_code == 503


def test_an_error_is_told_to_who_waited_and_then_asked_about_anew() -> None:
    started: list[Future[str]] = [Future(), Future()]
    started[0].set_exception(ValueError("broken"))
    started[1].set_result("repaired")
    kept = KeptAnswer(iter(started).__next__)
    with pytest.raises(ValueError, match="broken"):
        asyncio.run(kept.get())
    assert asyncio.run(kept.get()).answer == "repaired"


def test_one_request_computes_at_a_time_and_those_that_wait_for_stores_are_not_in_the_way() -> None:
    """And one that is cancelled while it waits for its turn passes it on."""
    order: list[str] = []

    async def run() -> None:
        turns, store = Turns(), asyncio.Event()

        async def request(name: str, *, waits: bool = False) -> None:
            async with turns.turn():
                order.append(f"{name} begins")
                if waits:
                    async with without_turn():
                        await asyncio.gather(store.wait(), store.wait())
                order.append(f"{name} ends")

        first = asyncio.create_task(request("first", waits=True))
        await asyncio.sleep(0)
        gone, second = asyncio.create_task(request("gone")), asyncio.create_task(request("second"))
        await asyncio.sleep(0)
        gone.cancel()
        await second
        store.set()
        await first
        await asyncio.wait_for(request("third"), timeout=patience(30))

    asyncio.run(run())
    assert order == ["first begins", "second begins", "second ends", "first ends", "third begins", "third ends"]


@pytest.mark.parametrize("worked_seconds", [0.001, 0.1, 0.3])
def test_a_turn_is_followed_by_a_rest_of_three_times_its_length(worked_seconds: float) -> None:
    """Also a long one, as on a loaded machine: else the page would take more than a quarter of the time."""
    rests: list[float] = []

    async def run() -> None:
        turns = Turns()
        await turns.take(has_begun=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "call_later", lambda seconds, call: rests.append(seconds))
            turns.give_back(worked_seconds)

    asyncio.run(run())
    assert rests == [pytest.approx(3 * worked_seconds)]


def test_the_turns_of_one_event_loop_are_not_those_of_another() -> None:
    """A request waits for its turn in one loop, while another loop takes and gives back turns, and ends."""
    turns = Turns()

    async def take_and_give_back() -> None:
        async with turns.turn():
            pass

    async def wait_beside_another_loop() -> None:
        async with turns.turn():
            waiting = asyncio.ensure_future(take_and_give_back())
            await asyncio.sleep(0)  # it waits now
            await asyncio.to_thread(asyncio.run, take_and_give_back())
        await asyncio.wait_for(waiting, patience(5))

    asyncio.run(wait_beside_another_loop())


def test_a_request_that_gets_no_turn_is_told_to_come_again(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relaybox.airflow.page.turns.PATIENCE_SECONDS", 0.05)
    (mounted,) = [route.app for route in page.app.routes if getattr(route, "path", "") == "/relaybox"]

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app=page.app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client, mounted.turns.turn():
            return await client.get("/relaybox/map")

    answer = asyncio.run(run())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.headers["x-content-type-options"] == "nosniff"
