"""G11 where the server refuses to tell which history of which cluster it is: the functions of the WAL are taken from every login."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import yaml

from relaybox import errors
from relaybox.local.clusters import Cluster
from relaybox.monitoring.status import read_status
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.verification.route_verification import verify_route
from tests.support.backups import Backups
from tests.support.breaking import copy_slices_but_the_first
from tests.support.world import STORES, World

FUNCTIONS = "pg_control_system(), pg_current_wal_insert_lsn()"


@pytest.fixture
def untold(owned: World) -> World:
    """Three empty databases that tell no login their cluster; their owner is no superuser."""
    for store in STORES:
        owned.query(f"administer_{store}", f"revoke execute on function {FUNCTIONS} from public")
    return owned


@pytest.fixture
def provided(untold: World) -> World:
    """The same, initialised: a provider answers for each store."""
    document = yaml.safe_load(untold.path.read_text())
    for store in STORES:
        document["stores"][store] = {"durability": "provider", "durability_reason": "its pages are kept elsewhere"}
    untold.path.write_text(yaml.safe_dump(document))
    untold.initialise()
    return untold


@pytest.fixture
def backups(clusters: Mapping[str, Cluster], provided: World) -> Iterator[Backups]:
    backups = Backups(clusters, provided)
    yield backups
    backups.drop()


def reanchor(world: World, hop: int = 0) -> None:
    reanchor_hop(world.route.hops[hop], world.routes, recorded_by="test", reason="a test", dry_run=False)


def test_without_a_provider_init_is_refused_with_the_grant(untold: World) -> None:
    with pytest.raises(
        errors.StoreUnusable, match=r"does not tell which history of which cluster it is: .* \(42501\)"
    ) as refused:
        untold.initialise()
    assert "grant execute on function pg_control_system(), pg_current_wal_insert_lsn()" in refused.value.next_step
    assert "to app_owner" in refused.value.next_step
    assert untold.value("airline", "select to_regclass('relaybox.outbox') is null")
    for store in STORES:
        untold.query(f"administer_{store}", f"grant execute on function {FUNCTIONS} to app_owner")
    untold.initialise()


def test_with_a_provider_messages_move_and_nothing_is_reported(provided: World) -> None:
    provided.send("a", "b")
    provided.transfer_all()
    provided.settle_all()
    assert provided.payloads("flights/2") == ["a", "b"]
    assert provided.query("airline", "select system_identifier, timeline from relaybox_internal.hop_out") == [(0, 0)]
    assert [hop.history_gap for hop in read_status(provided.routes).hops] == [None, None]
    assert verify_route(provided.route).outcome == "delivered"


def test_g11_a_source_that_went_back_stops_and_goes_on_after_reanchor(provided: World, backups: Backups) -> None:
    """A restore or a branch with the same identifiers: the destination has a batch that the source never planned."""
    provided.send("kept")
    provided.transfer_all()
    before = backups.take("airline")
    provided.send("lost")
    provided.transfer_all()
    backups.restore("airline", before)
    provided.send("new")
    with pytest.raises(errors.HistoryLost, match="airline lost history"):
        provided.transfer()
    assert any(hop.history_gap for hop in read_status(provided.routes).hops)
    reanchor(provided)
    provided.transfer_all()
    assert provided.payloads("flights/2") == ["kept", "lost", "new"]
    assert verify_route(provided.route).outcome == "delivered"


def test_g11_a_source_that_lost_a_plan_of_which_slices_arrived_stops(provided: World, backups: Backups) -> None:
    """A failover that lost the newest transactions: no batch was published, and slices of the lost plan are there."""
    before = backups.take("airline")
    provided.send("a", "b")
    copy_slices_but_the_first_of_two(provided)
    backups.restore("airline", before)
    provided.send("c", "d")
    with pytest.raises((errors.HistoryLost, errors.ContentDiffers)):
        provided.transfer()
    reanchor(provided)
    provided.transfer_all()
    assert provided.payloads("flights/2") == ["c", "d"]


def copy_slices_but_the_first_of_two(world: World) -> None:
    document = yaml.safe_load(world.path.read_text())
    document["routes"]["flights"]["limits"] = {"batch_rows": 2, "slice_rows": 1}
    world.path.write_text(yaml.safe_dump(document))
    copy_slices_but_the_first(world.first_hop)


def test_g11_a_destination_that_went_back_gets_everything_again(provided: World, backups: Backups) -> None:
    before = backups.take("hub")
    provided.send("a", "b")
    provided.transfer_all()
    backups.restore("hub", before)
    with pytest.raises(errors.HistoryLost, match="hub lost history"):
        provided.transfer()
    reanchor(provided)
    provided.transfer()
    with pytest.raises(errors.HistoryLost):
        provided.transfer(provided.second_hop)
    reanchor(provided, 1)
    provided.transfer_all()
    assert provided.payloads("flights/2") == ["a", "b"]
    assert verify_route(provided.route).outcome == "delivered"


def test_a_provider_that_begins_to_tell_stops_the_hop_until_attest(provided: World) -> None:
    """And one that ceases to: the fingerprint is another one, and somebody says that nothing was lost."""
    provided.send("a")
    provided.transfer()
    for change in ("grant execute on function {} to public", "revoke execute on function {} from public"):
        provided.query("administer_airline", change.format(FUNCTIONS))
        provided.send("b")
        with pytest.raises(errors.HistoryLost, match="relaybox attest airline"):
            provided.transfer()
        assert attest_store(provided.routes.store("airline"), provided.routes, recorded_by="test", reason="told now").changed
        provided.transfer()
    assert provided.payloads() == ["a", "b", "b"]
