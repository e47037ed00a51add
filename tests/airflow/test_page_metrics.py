"""What a scraper gets: the metrics of the hops that its login may read, and of no other."""

from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from relaybox.monitoring.metrics import CONTENT_TYPE
from tests.airflow.connections import change_connection
from tests.airflow.page_client import PageServer, token_of
from tests.airflow.page_users import SomeHops, seen_by
from tests.support.cli import invoke
from tests.support.services import add_route
from tests.support.world import World


@pytest.fixture
def page(page: PageServer, connected: World) -> PageServer:
    """Two routes leave one store; messages arrived, and one subscription of each stream is behind."""
    add_route(connected.path, "salaries", topics=["salaries"], path=["airline", "hub"])
    connected.register()
    connected.send("flight")
    connected.send("raise", topic="salaries")
    connected.send("lost", topic="flihgts")
    connected.transfer_all()
    connected.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    connected.query("hub", "select relaybox.subscribe('payroll', 'salaries')")
    return page


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Each sample's value, by metric and labels; a strict reader's."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def words(text: str) -> set[str]:
    """All values of labels."""
    return {value for _, labels in samples(text) for _, value in labels}


def test_it_is_what_the_command_writes(page: PageServer) -> None:
    answer = page.client("viewer").get("/relaybox/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == CONTENT_TYPE
    assert samples(answer.text).keys() == samples(invoke("metrics").stdout).keys()


def test_a_scraper_logs_in_with_a_token_and_no_cookie(page: PageServer) -> None:
    scraper = page.client(None)
    assert scraper.get("/relaybox/metrics").status_code == 401
    assert scraper.get("/relaybox/metrics", headers={"authorization": f"Bearer {token_of('viewer')}"}).status_code == 200
    assert scraper.get("/relaybox/metrics", headers={"authorization": f"Bearer {token_of('nobody')}"}).status_code == 403


@pytest.mark.parametrize(
    ("rights", "shown", "hidden"),
    [
        (
            SomeHops("flights/1", "flights/2"),
            {"flights/1", "flights/2", "airline", "hub", "analytics", "billing"},
            "salar|payroll",
        ),
        (SomeHops("salaries/1"), {"salaries/1", "airline", "hub", "payroll"}, "flights|billing|analytics"),
        (SomeHops("flights/2"), {"flights/2", "hub", "analytics"}, "flights/1|salar|payroll|airline|billing"),
        (SomeHops(), set(), "."),
    ],
    ids=["own route", "a route that shares its stores", "one hop of a route", "nothing"],
)
def test_a_login_gets_the_hops_that_it_may_read(page: PageServer, rights: SomeHops, shown: set[str], hidden: str) -> None:
    """A stream and its subscriptions belong to who may read the whole route."""
    with seen_by(page, rights) as client:
        found = words(client.get("/relaybox/metrics").text)
    assert shown <= found
    assert [word for word in found if re.search(hidden, word)] == []


def test_a_store_that_is_down_is_a_metric_and_hides_no_other(page: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    change_connection(monkeypatch, "RELAYBOX_ANALYTICS", port=1)
    text = page.client("viewer").get("/relaybox/metrics").text
    up = {dict(labels)["store"]: value for (name, labels), value in samples(text).items() if name == "relaybox_store_up"}
    assert up == {"airline": 1, "hub": 1, "analytics": 0}
