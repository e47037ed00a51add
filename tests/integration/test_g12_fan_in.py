"""G12 where two routes meet in one causal stream: stores are restored, alone and together, and the routes repaired one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
import yaml

from relaybox.local.clusters import Cluster
from relaybox.verification.route_verification import verify_route
from tests.faults.restores import Databases, repair_route, restore, take_copy
from tests.integration.orders import Sent, keeps_causal
from tests.support.disposal import discard
from tests.support.world import World

ROUTES = {"from_airline": ("a", "airline"), "from_analytics": ("b", "analytics")}
"""Route -> its sender, and where that one sends; all messages go to hub."""

RESTORED = (("hub",), ("airline", "hub"), ("airline", "hub", "analytics"))


class FanIn:
    """Two senders that hear of each other; `sends` is what they themselves know of their messages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sends: dict[str, Sent] = {}
        self.epochs, self.newest = {"a": 1, "b": 1}, {"a": 0, "b": 0}
        self.heard: dict[str, tuple[int, int]] = {}
        routes = {
            route: {"topics": ["flights"], "path": [store, "hub"], "stream": "both", "order": "causal"}
            for route, (_, store) in ROUTES.items()
        }
        world.path.write_text(yaml.safe_dump({"stores": {"airline": {}, "hub": {}, "analytics": {}}, "routes": routes}))
        world.register()
        for sender, store in ROUTES.values():
            world.query(store, "select relaybox.declare_sender(%s, 'gapless')", sender)

    def send(self, count: int) -> None:
        """In turn; each message follows all that was sent before it."""
        for _ in range(count):
            for (sender, store), other in zip(ROUTES.values(), "ba", strict=True):
                self.newest[sender] += 1
                index, epoch = self.newest[sender], self.epochs[sender]
                payload = f"{sender}{epoch}.{index}"
                clock = json.dumps({other: self.heard[other]} if other in self.heard else {})
                self.heard[sender] = (epoch, index)
                self.world.query(
                    store,
                    "insert into relaybox.outbox (topic, sender, epoch, index, payload, clock) values ('flights', %s, %s, %s, %s, %s)",
                    *(sender, epoch, index, payload, clock),
                )
                self.sends[payload] = Sent(sender, len(self.sends), frozenset(self.sends))

    def begin_epochs(self, stores: tuple[str, ...]) -> None:
        """Senders whose store lost what they had sent begin anew."""
        for sender, store in ROUTES.values():
            if store in stores:
                self.world.query(store, "select relaybox.new_epoch(%s)", sender)
                self.epochs[sender] += 1
                self.newest[sender] = 0

    def move(self) -> None:
        for route in self.world.routes.routes.values():
            repair_route(route, self.world.routes)

    def existing(self) -> set[str]:
        """What any outbox or log has."""
        outboxes = [
            payload
            for _, store in ROUTES.values()
            for (payload,) in self.world.query(store, "select payload from relaybox.outbox")
        ]
        return {*outboxes, *self.logged()}

    def logged(self) -> list[str]:
        return [
            payload for (payload,) in self.world.query("hub", "select payload from relaybox.inbox order by hop, log_position")
        ]

    def delivered(self) -> list[str]:
        return [
            payload
            for (payload,) in self.world.query(
                "hub", "select payload from relaybox.read_stream('both', 0, 100000) order by stream_position"
            )
        ]


@pytest.fixture
def databases(clusters: Mapping[str, Cluster], world: World) -> Databases:
    return {store: (cluster, world.value(store, "select current_database()")) for store, cluster in clusters.items()}


@pytest.mark.parametrize("stores", RESTORED, ids="+".join)
def test_g12_restores_where_two_routes_meet_in_a_causal_stream(
    world: World, databases: Databases, stores: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Whatever still exists is logged once and delivered once, causes before effects; the stream says why it waits for nothing."""
    both = FanIn(world)
    both.send(3)
    both.move()
    both.send(2)
    copy = take_copy({store: databases[store] for store in stores}, "copy")
    request.addfinalizer(lambda: discard(copy.databases.values()))
    both.move()
    both.send(2)
    both.move()
    restore(copy, databases, stores)
    existing = both.existing()
    both.move()
    both.begin_epochs(stores)
    before = {*both.sends}
    both.send(4)
    both.move()
    both.send(1)
    both.move()
    existing |= both.sends.keys() - before
    assert sorted(both.logged()) == sorted(existing)
    assert sorted(both.delivered()) == sorted(existing)
    assert keeps_causal(both.sends, {"hub": both.delivered()})
    for route in world.routes.routes.values():
        assert verify_route(route).outcome == "delivered"
