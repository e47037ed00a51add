"""The steps of a driver, one by one, as a test wants them."""

from __future__ import annotations

from relaybox.hops.copying import CopyOrder, copy_order
from relaybox.hops.planning import Driver, Planned, plan_batch
from relaybox.hops.publishing import ask_destination, make_log_segments, publish_batch
from tests.support.world import World


def planned_batch(world: World) -> tuple[Planned, CopyOrder]:
    """A planned batch of the first hop and the order to copy it, as a driver holds them."""
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        planned = plan_batch(source, hop, arrived, driver=Driver("test"))
        assert planned is not None
        make_log_segments(destination, hop, log_id=arrived.log_id, through_position=planned.batch.last_position)
    return planned, copy_order(hop, planned.batch, attempt=planned.attempt, log_id=arrived.log_id, reads_log=None)


def publish(world: World, planned: Planned) -> None:
    with world.store_session("hub") as destination:
        log_id = ask_destination(destination, world.first_hop).log_id
        publish_batch(destination, world.first_hop, planned.batch, log_id=log_id)
