"""A store with two logs, each of a stream of its own: what it says of one is of that one alone."""

from __future__ import annotations

import yaml

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from tests.support.world import STORES, World


def fill_two_logs(world: World, *, segment_rows: int = 10_000) -> None:
    """Logs 1 and 2 of the hub, of the streams `flights` and `other`: 30 and 15 messages, in two batches each, stream positions as positions."""
    routes = {
        name: {"path": list(STORES), "topics": [name], "retention": {"replay_window_seconds": 0}} for name in ("flights", "other")
    }
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()
    world.cut_small_segments(segment_rows)
    for counts in ({"flights": 20, "other": 5}, {"flights": 10, "other": 10}):
        for topic, count in counts.items():
            world.send(*(f"{topic} {n}" for n in range(count)), topic=topic)
            transfer_hop(world.routes.hop(f"{topic}/1"), ThreadRunner(1), recorded_by="test")
