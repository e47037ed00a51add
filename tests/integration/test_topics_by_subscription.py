"""A3.5: where the route says so, a topic exists by its first subscription."""

from __future__ import annotations

import psycopg2
import pytest

from relaybox.hops.confirmations import settle_hop
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.world import World


def topics(world: World) -> list[str]:
    return list(world.value("airline", "select topics from relaybox_internal.hop_out where hop = 'flights/1'"))


def test_a_topic_exists_by_its_first_subscription_and_travels_to_its_origin(world: World) -> None:
    """From the last store up, hop by hop, with the confirmations; init forgets none; other topics stay where they are."""
    world.change_route(topics_by_subscription=True)
    assert world.value("analytics", "select relaybox.subscribe('billing', 'invoices')") == 1
    world.settle_all()
    assert topics(world) == ["flights", "invoices"]
    world.send("bill", topic="invoices")
    world.send("other", topic="weather")
    world.send("flight")
    world.transfer_all()
    assert world.query("analytics", "select topic, payload from relaybox.fetch('billing')") == [("invoices", "bill")]
    assert world.payloads("flights/2") == ["bill", "flight"]
    for store in world.route.path:
        assert initialise_store(store, world.routes).hops
    assert topics(world) == ["flights", "invoices"]
    message = world.value("airline", "select message_id::text from relaybox.outbox where topic = 'invoices'")
    assert "flights/2: arrived at position 1" in invoke("where", message).stdout


def test_a_topic_that_the_file_names_no_more_is_carried_no_more(world: World) -> None:
    """What consumers asked for stays; a topic that the file has named is the file's, and comes back by a new subscription only."""
    world.change_route(topics=["flights", "gates"], topics_by_subscription=True)
    world.query("analytics", "select relaybox.subscribe('billing', 'invoices')")
    world.query("analytics", "select relaybox.subscribe('doors', 'gates')")
    world.settle_all()
    assert topics(world) == ["flights", "gates", "invoices"]
    for file, carried in (
        (["flights"], ["flights", "invoices"]),
        (["flights", "invoices"], ["flights", "invoices"]),
        (["flights"], ["flights"]),
    ):
        world.change_route(topics=file, topics_by_subscription=True)
        assert topics(world) == carried
        world.settle_all()
        assert topics(world) == carried
    for topic in ("gates", "invoices", "flights"):
        world.send("secret" if topic != "flights" else "flight", topic=topic)
    world.transfer_all()
    assert world.payloads("flights/2") == ["flight"]
    world.query("analytics", "select relaybox.subscribe('gates-again', 'gates')")
    world.settle_all()
    assert topics(world) == ["flights", "gates"]


def test_a_driver_with_an_older_file_carries_no_topic_that_the_route_does_not_take(world: World) -> None:
    """The owner has switched it off, and an init has read that: what consumers had asked for must not come."""
    world.change_route(topics_by_subscription=True)
    older = world.routes
    world.query("analytics", "select relaybox.subscribe('billing', 'payroll')")
    world.change_route()
    for hop in reversed(older.hops):
        settle_hop(older.route("flights"), hop, recorded_by="test")
    assert topics(world) == ["flights"]
    assert world.query("hub", "select topic from relaybox_internal.known_topics where topic = 'payroll'") == []


def test_a_mistyped_topic_is_removed_by_naming_it_in_the_file_once(world: World) -> None:
    """As docs/consuming.md says: in every store of the route, and in the quota of who had asked for it."""
    world.change_route(topics_by_subscription=True)
    world.query("analytics", "select relaybox.subscribe('billing', 'fligths')")
    world.settle_all()
    assert topics(world) == ["flights", "fligths"]
    world.query("analytics", "select relaybox.unsubscribe('billing', 'mistyped')")
    assert world.value("analytics", "select topics from relaybox.my_quota()") == 1
    for file in (["flights", "fligths"], ["flights"]):
        world.change_route(topics=file, topics_by_subscription=True)
    world.settle_all()
    assert topics(world) == ["flights"]
    assert world.value("analytics", "select topics from relaybox.my_quota()") == 0
    for store in ("hub", "analytics"):
        assert world.query(store, "select topic from relaybox_internal.known_topics where carried_by <> 'nobody'") == [
            ("flights",)
        ]


def test_a_route_whose_topics_come_by_subscription_no_more_carries_those_of_the_file(world: World) -> None:
    world.change_route(topics_by_subscription=True)
    world.query("analytics", "select relaybox.subscribe('billing', 'invoices')")
    world.settle_all()
    assert topics(world) == ["flights", "invoices"]
    world.change_route(topics_by_subscription=False)
    world.settle_all()
    assert topics(world) == ["flights"]


def test_a_topic_is_not_made_where_the_file_names_them_all(world: World) -> None:
    """A typo is denied, with the names that there are."""
    with pytest.raises(psycopg2.Error) as denied:
        world.query("analytics", "select relaybox.subscribe('billing', 'fligths')")
    assert denied.value.pgcode == "RB032"
    assert "Streams here: flights (flights)" in str(denied.value)
