"""G11 at a provider whose branches are copies with every identifier of their parent: the id of the branch tells them apart.

No test runs Neon. A database with the setting `neon.timeline_id` stands for its compute: sessions that begin after a change of the setting
are those of another branch, with the same rows, identifiers and timeline.
"""

from __future__ import annotations

import pytest

from relaybox import errors
from relaybox.hops import transfer as transfer_hop_module
from relaybox.monitoring.status import read_status
from relaybox.recovery.attesting import attest_store
from tests.support.world import World

PARENT, CHILD = "de200bd42b49cc1814412c7e592dd6e9", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


def branch(world: World, timeline_id: str) -> None:
    """From now on sessions of the source are those of this branch."""
    database = world.value("airline", "select quote_ident(current_database())")
    world.query("airline", f"alter database {database} set neon.timeline_id = '{timeline_id}'")


def attest(world: World) -> None:
    attest_store(world.routes.store("airline"), world.routes, recorded_by="test", reason="this branch is the store")


@pytest.fixture
def branched(world: World) -> World:
    """The source is in the parent branch, and has sent a message."""
    branch(world, PARENT)
    attest(world)
    world.send("a")
    world.transfer()
    return world


def test_g11_a_branch_with_the_identifiers_of_its_parent_stops_the_hop_until_it_is_attested(branched: World) -> None:
    """The copy lacks nothing: without the id of the branch nothing would tell."""
    branched.transfer()
    branch(branched, CHILD)
    branched.send("b")
    with pytest.raises(errors.HistoryLost, match="timeline"):
        branched.transfer()
    assert branched.payloads() == ["a"]
    assert [bool(hop.history_gap) for hop in read_status(branched.routes).hops] == [True, False]
    attest(branched)
    branched.transfer()
    assert branched.payloads() == ["a", "b"]
    branch(branched, PARENT)
    with pytest.raises(errors.HistoryLost, match="timeline"):
        branched.transfer()


def test_g11_the_branch_changes_between_plan_and_confirmation(branched: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that are open go on in the branch in which they began: what they planned is of one branch, whole."""
    branched.send("b")
    before = branched.value("airline", "select max(batch) from relaybox_internal.batch")
    real = transfer_hop_module.publish_batch

    def switch_and_publish(*arguments: object, **named: object) -> object:
        branch(branched, CHILD)
        return real(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(transfer_hop_module, "publish_batch", switch_and_publish)
        branched.transfer()
    assert branched.payloads() == ["a", "b"]
    assert branched.value("airline", "select max(batch) from relaybox_internal.batch") == before + 1
    branched.send("c")
    with pytest.raises(errors.HistoryLost, match="timeline"):
        branched.transfer()


def test_a_cluster_without_branches_has_its_own_timeline(world: World) -> None:
    timeline = "select ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer"
    fingerprint = "select timeline from relaybox_internal.cluster_fingerprint()"
    assert world.value("airline", fingerprint) == world.value("airline", timeline)
    branch(world, "")
    assert world.value("airline", fingerprint) == world.value("airline", timeline)
    branch(world, PARENT)
    assert world.value("airline", fingerprint) > 0
    assert world.value("airline", fingerprint) != world.value("airline", timeline)
