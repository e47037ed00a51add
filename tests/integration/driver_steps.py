"""The steps of a driver, one by one, as a test wants them."""

from __future__ import annotations

from relaybox.hops.copying import SliceJob, slice_job
from relaybox.hops.planning import AttemptOwner, Planned, plan_batch
from relaybox.hops.publishing import ask_destination, make_log_segments, publish_batch
from tests.support.world import World


def planned_batch(world: World) -> tuple[Planned, SliceJob]:
    """A planned batch of the first hop and the order to copy it, as a driver holds them."""
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        planned = plan_batch(source, hop, arrived, driver=AttemptOwner("test"))
        assert planned is not None
        make_log_segments(destination, hop, log_id=arrived.log_id, through_position=planned.batch.last_position)
    stores, attempt = world.store_ids(), planned.attempt
    return planned, slice_job(hop, planned.batch, stores=stores, attempt=attempt, log_id=arrived.log_id, reads_log=None)


def publish(world: World, planned: Planned) -> None:
    with world.store_session("hub") as destination:
        log_id = ask_destination(destination, world.first_hop).log_id
        publish_batch(destination, world.first_hop, planned.batch, log_id=log_id)
