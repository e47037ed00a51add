"""`relaybox init` has a stream read each log that arrives; what was decided already keeps its rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.stores.init.one_store import initialise_store
from tests.support.world import World

CHAT: dict[str, dict[str, Any]] = {
    f"chat-{way}": {"topics": ["chat"], "path": path, "order": "causal", "stream": "chat"}
    for way, path in {
        "a": ["airline", "airline"],
        "ah": ["airline", "hub"],
        "h": ["hub", "hub"],
        "ha": ["hub", "airline"],
    }.items()
}

STREAMS = """
    select i.hop, s.stream, l.origin, s.delivery_order, s.message_id_window, s.holdback_rows, s.fragments
    from relaybox_internal.stream s left join relaybox_internal.stream_log l using (stream_id) left
        join relaybox_internal.hop_in i using (log_id)
    order by i.hop
"""


def streams(world: World, store: str = "hub") -> list[tuple[Any, ...]]:
    return world.query(store, STREAMS)


def change(world: World, **route: object) -> dict[str, str]:
    """Rewrites the route and initialises the hub again; what init said of its hops."""
    return write(world, {"flights": {"topics": ["flights"], "path": ["airline", "hub", "analytics"], **route}})


def write(world: World, routes: Mapping[str, object], store: str = "hub") -> dict[str, str]:
    document = {"stores": {store: {} for store in ("airline", "hub", "analytics")}, "routes": routes}
    world.path.write_text(yaml.safe_dump(document, sort_keys=False))
    return initialise_store(world.routes.store(store), world.routes).hops


def decide(world: World, hop: str = "flights/1", store: str = "hub") -> None:
    """As if one batch of one message had been decided on."""
    world.query(
        store,
        """
        with log as (
            update relaybox_internal.stream_log l set decided_batch = 1, decided_position = 1 from relaybox_internal.hop_in i
            where i.log_id = l.log_id and i.hop = %s returning l.stream_id
        )
        update relaybox_internal.stream s set arrival_seq = 1, last_stream_position = 1 from log where log.stream_id = s.stream_id
        """,
        hop,
    )


def test_each_log_that_arrives_has_the_stream_of_its_route(world: World) -> None:
    """By default one of the route's name, without order; both stores keep the same rules. Nothing arrives at the origin."""
    for store, hop in (("hub", "flights/1"), ("analytics", "flights/2")):
        assert streams(world, store) == [(hop, "flights", "airline", "none", 0, 10_000, 1_000_000)]
    assert streams(world, "airline") == []


def test_causal_routes_share_a_stream_that_reads_several_logs(world: World) -> None:
    """One row of rules per store, a log per origin."""
    for store, hops in (("airline", ["chat-a/1", "chat-ha/1"]), ("hub", ["chat-ah/1", "chat-h/1"])):
        said = write(world, CHAT, store)
        assert [said[f"{hop} in"] for hop in hops] == ["registered", "registered"]
        chat = [row for row in streams(world, store) if row[1] == "chat"]
        assert [(row[0], row[3]) for row in chat] == [(hop, "causal") for hop in hops]
        assert {row[2] for row in chat} == {"airline", "hub"}
        assert set(write(world, CHAT, store).values()) == {"unchanged"}


def test_store_of_an_older_relaybox_gets_its_streams(world: World) -> None:
    """Its hops are known, their logs are read by no stream yet."""
    world.query("hub", "delete from relaybox_internal.stream_log; delete from relaybox_internal.stream")
    assert change(world, order="fifo")["flights/1 in"] == "registered"
    assert streams(world) == [("flights/1", "flights", "airline", "fifo", 0, 10_000, 1_000_000)]


def test_before_anything_is_decided_every_rule_may_change(world: World) -> None:
    """The stream of the old name is gone, so that nobody reads nothing from it for ever."""
    assert change(world, order="total", stream="all", message_id_window=7)["flights/1 in"] == "changed"
    assert streams(world) == [("flights/1", "all", "airline", "total", 7, 10_000, 1_000_000)]


def test_limits_may_change_at_any_time(world: World) -> None:
    """They bound what a store keeps, and never change what it delivers."""
    decide(world)
    assert change(world, limits={"holdback_rows": 5, "fragments": 100})["flights/1 in"] == "changed"
    assert streams(world) == [("flights/1", "flights", "airline", "none", 0, 5, 100)]
    assert change(world, limits={"holdback_rows": 5, "fragments": 100})["flights/1 in"] == "unchanged"


@pytest.mark.parametrize(
    ("route", "message"),
    [
        (
            {"order": "fifo"},
            "stream flights was delivered here with order none and message_id_window 0; the file says fifo and 0",
        ),
        (
            {"message_id_window": 9},
            "stream flights was delivered here with order none and message_id_window 0; the file says none and 9",
        ),
        ({"stream": "other"}, "hop flights/1 was delivered in stream flights here; the file says other"),
    ],
)
def test_what_was_decided_keeps_its_rules(world: World, route: dict[str, object], message: str) -> None:
    """Consumers have read it: it can't be put into another order afterwards. init as a whole changes nothing."""
    decide(world)
    before = streams(world)
    with pytest.raises(errors.HopChanged, match=message) as caught:
        change(world, limits={"holdback_rows": 5}, **route)
    assert "Give the changed route a new name" in str(caught.value)
    assert streams(world) == before


def test_a_hop_keeps_its_origin_once_it_was_decided_on(world: World) -> None:
    """Senders are known by the store where they send: another one would be other senders under the same names."""
    decide(world)
    query = "select relaybox_internal.register_stream('flights/1', 'flights', 'analytics', 'none', 0, 10000, 1000000)"
    with pytest.raises(psycopg2.Error, match="hop flights/1 was delivered here from origin airline; the file says analytics"):
        world.query("hub", query)


def test_a_stream_without_causal_order_reads_one_log(world: World) -> None:
    """A renamed route can't go on under the stream of the old one: that has the old log, which is not in the file any more."""
    renamed = {"flights2": {"topics": ["flights"], "path": ["airline", "hub"], "stream": "flights"}}
    with pytest.raises(
        errors.HopChanged,
        match="stream flights reads the log of hop flights/1 here; only a causal stream can read that of hop flights2/1",
    ):
        write(world, renamed)


def test_a_hop_that_does_not_arrive_has_no_stream(world: World) -> None:
    with pytest.raises(psycopg2.Error, match="hop flights/2 does not arrive in this store") as caught:
        world.query("hub", "select relaybox_internal.register_stream('flights/2', 'x', 'airline', 'none', 0, 1, 100)")
    assert caught.value.pgcode == "RB004"


def test_a_store_whose_stream_changed_has_changed(world: World) -> None:
    """`relaybox init` says so at every store that the route arrives in."""
    assert not initialise_store(world.routes.store("hub"), world.routes).changed
    change(world, order="total")
    again = initialise_store(world.routes.store("analytics"), world.routes)
    assert again.changed
    assert again.hops == {"flights/2 in": "changed"}
