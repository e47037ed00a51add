"""Any login chooses the name of its session: a name alone stops no hop, and hides none that waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
import pytest

from tests.support.cli import invoke
from tests.support.services import read_service
from tests.support.world import STORES, World


@pytest.fixture
def application(world: World) -> Iterator[World]:
    """In each store: a login of an application, a producer and consumer."""
    for store in STORES:
        world.query(store, "create role application login password 'application' in role relaybox_producer, relaybox_consumer")
    yield world
    for store in STORES:
        world.query(store, "drop role application")


@contextmanager
def session_named(store: str, name: str) -> Iterator[None]:
    """A session of the application with this name; it must be alive at the end."""
    parameters = {**read_service(store), "user": "application", "password": "application", "application_name": name}
    with closing(psycopg2.connect(**parameters)) as session, session.cursor() as cursor:
        yield
        cursor.execute("select current_setting('application_name')")
        assert cursor.fetchone() == (name,)


def test_an_application_passes_for_no_driver(application: World) -> None:
    """Messages that wait are work that no driver has, so that pollers and the watch start one."""
    application.send("a")
    for store in ("airline", "hub"):
        with session_named(store, "relaybox flights/1 driver"):
            assert application.value(store, "select relaybox_internal.hop_is_driven('flights/1')") is False
    with session_named("airline", "relaybox flights/1 driver"):
        told = invoke("status", "--json").document["hops"][0]
        assert (told["hop"], told["driven"]) == ("flights/1", False)


@pytest.mark.parametrize("attempt", ["0", "1", "9" * 24])
def test_no_name_of_a_session_stops_a_transfer_or_a_new_generation(application: World, attempt: str) -> None:
    """It is neither ended nor read as a number that is too large."""
    application.send("a")
    with session_named("hub", f"relaybox flights/1 b1 s1 a{attempt}"):
        application.transfer()
        application.query(
            "hub",
            "select relaybox_internal.begin_generation(i.log_id, i.generation + 1) "
            "from relaybox_internal.hop_in i where i.hop = 'flights/1'",
        )
    assert application.payloads("flights/1") == ["a"]
