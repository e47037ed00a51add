"""What a user may not read does not show: no statement, no name of a hop, no tab of a DAG."""

from __future__ import annotations

import pytest

from tests.airflow.page_client import PageServer
from tests.airflow.page_users import SomeHops, seen_by
from tests.support.services import add_route
from tests.support.world import World, insert


@pytest.fixture
def page(page: PageServer, connected: World, monkeypatch: pytest.MonkeyPatch) -> PageServer:
    """Over a store that two routes leave; every open transaction is shown."""
    monkeypatch.setattr("relaybox.monitoring.overview.start_overview.__kwdefaults__", {"open_for_seconds": 0.0})
    add_route(connected.path, "salaries", topics=["salaries"], path=["airline", "hub"])
    connected.register()
    return page


def test_a_statement_is_shown_to_who_may_run_all_that_it_may_be_about(page: PageServer, connected: World) -> None:
    """And of what a finding affects, a user sees the hops that the user may read."""
    everything = ("flights/1", "flights/2", "salaries/1")
    with connected.session() as producer:
        insert(producer, "kept back")
        with producer.cursor() as cursor:
            cursor.execute("select 'salary of 4711'")
        answers = {}
        for name, rights in {
            "all": SomeHops(*everything, run=everything),
            "own": SomeHops("flights/1", "flights/2", run=("flights/1", "flights/2")),
            "reads all": SomeHops(*everything, run=("flights/1", "flights/2")),
        }.items():
            with seen_by(page, rights) as client:
                answers[name] = [client.get(f"/relaybox/{path}").text for path in ("stuck", "hops/flights/1", "api/status")]
        producer.rollback()
    assert all("One transaction has sent messages at airline" in text for texts in answers.values() for text in texts)
    assert ["salary of 4711" in text for texts in answers.values() for text in texts] == [True] * 3 + [False] * 6
    assert ["salaries" in text for text in answers["own"]] == [False] * 3
    assert ["salaries/1" in text for text in answers["all"]] == [True] * 3


def test_the_tab_of_a_hidden_dag_is_like_that_of_a_foreign_one(page: PageServer) -> None:
    with seen_by(page, SomeHops("flights/1")) as client:
        own, hidden, none = (
            client.get(f"/relaybox/of-dag?dag={dag}")
            for dag in ("relaybox_transfer__flights_1", "relaybox_transfer__salaries_1", "relaybox_transfer__nothing_1")
        )
    assert own.status_code == 303
    assert (hidden.status_code, hidden.text) == (none.status_code, none.text)
    assert "location" not in hidden.headers
