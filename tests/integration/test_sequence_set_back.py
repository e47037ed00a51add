"""The sequence of the outbox set back by hand: a transfer, status and doctor name it, and init moves it on without losing a message."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from relaybox import errors
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.init_scripts import init_by_script
from tests.support.world import World

NEXT_STEP = "Run: relaybox init airline. It moves the sequence on and numbers these messages anew; none is lost."
SEQS = "select seq from relaybox.outbox order by seq"


@pytest.fixture
def dropped(world: World) -> World:
    """Retention has dropped the first two segments, of ten rows each."""
    world.change_route(retention={"replay_window_seconds": 0})
    world.cut_small_segments()
    world.send_many(25)
    world.transfer_all()
    world.settle_all()
    for _ in range(2):
        assert world.value("airline", "select outcome from relaybox_internal.drop_oldest_segment(null, 'test')") == "dropped"
    return world


def _doctor(exit_code: int) -> list[Mapping[str, str]]:
    done = invoke("doctor", "--json", "airline")
    assert done.exit_code == exit_code, done.stdout
    (store,) = done.document["stores"]
    return [one for one in store["results"] if one["check"] == "tables"]


def test_init_moves_a_sequence_on_that_was_set_back_behind_dropped_segments(dropped: World) -> None:
    """Before, transfer and init failed with 42P17, and doctor, status and verify were content. All messages arrive, in their order."""
    dropped.query("airline", "select setval('relaybox.outbox_seq', 5)")
    dropped.send("a", "b")
    with pytest.raises(
        errors.OutboxChanged, match=r"is at 7, the oldest segment of the outbox begins at 20, and 2 messages"
    ) as refused:
        dropped.transfer()
    assert refused.value.next_step == NEXT_STEP
    status = invoke("status")
    assert status.exit_code != 0
    assert "relaybox.outbox_seq was set back: it is at 7" in " ".join((status.stdout + status.stderr).split())
    (told,) = _doctor(1)
    assert (told["severity"], told["next_step"]) == ("error", "Run: relaybox init")
    assert "sequence relaybox.outbox_seq was set back: it is at 7, the newest row has seq 25, and 2 messages lie" in told["what"]
    done = initialise_store(dropped.routes.store("airline"), dropped.routes)
    assert [one.partition(":")[0] for one in done.repaired] == ["sequence relaybox.outbox_seq was set back"]
    assert [seq for (seq,) in dropped.query("airline", SEQS)][-3:] == [25, 26, 27]
    assert [one["severity"] for one in _doctor(0)] == ["ok"]
    dropped.send("c")
    dropped.transfer_all()
    assert dropped.payloads("flights/2")[25:] == ["a", "b", "c"]
    verified = invoke("verify", "flights")
    assert verified.exit_code == 0, verified.stdout


@pytest.mark.parametrize(("last_seq", "strays"), [(22, ()), (5, ("a", "b"))])
def test_a_dry_run_leaves_the_sequence_as_it_is(dropped: World, last_seq: int, strays: tuple[str, ...]) -> None:
    """Before, it moved the sequence, and the init after it had nothing to tell."""
    dropped.query("airline", f"select setval('relaybox.outbox_seq', {last_seq})")
    if strays:
        dropped.send(*strays)
    state = "select last_value, is_called from relaybox.outbox_seq"
    before = dropped.query("airline", state), dropped.query("airline", SEQS)
    for _ in range(2):
        planned = invoke("init", "--dry-run", "airline")
        assert planned.exit_code == 1, planned.stdout
        assert "relaybox.outbox_seq was set back: it is at" in " ".join(planned.stdout.split())
        assert (dropped.query("airline", state), dropped.query("airline", SEQS)) == before
    done = invoke("init", "airline")
    assert done.exit_code == 0, done.stdout
    assert "relaybox.outbox_seq was set back: it is at" in " ".join(done.stdout.split())
    assert dropped.value("airline", "select last_value from relaybox.outbox_seq") == 25 + len(strays)


def test_init_moves_a_sequence_on_that_was_set_back_into_its_rows(dropped: World) -> None:
    """No message can be inserted until it is past them: doctor and status name it. So does a script of init repair it."""
    dropped.query("airline", "select setval('relaybox.outbox_seq', 22)")
    (told,) = _doctor(1)
    assert "relaybox.outbox_seq was set back: it is at 22, the newest row has seq 25." in told["what"]
    init_by_script(dropped.path.parent, "airline")
    dropped.send("a")
    assert dropped.query("airline", SEQS)[-1] == (26,)
    dropped.transfer_all()
    assert dropped.payloads("flights/2")[25:] == ["a"]


def test_rows_that_a_hop_has_planned_keep_their_seqs(dropped: World) -> None:
    """A driver that ran all the time planned one of them: its batch names the seq. The other one gets a new seq, and both arrive once."""
    dropped.query("airline", "select setval('relaybox.outbox_seq', 5)")
    dropped.send("planned")
    dropped.query("airline", "select setval('relaybox.outbox_seq', 25)")
    hop = dropped.first_hop
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("relaybox.hops.transfer._Run._prepare_source", lambda _: None)
        dropped.transfer(hop)
    dropped.query("airline", "select setval('relaybox.outbox_seq', 7)")
    dropped.send("waiting")
    assert initialise_store(dropped.routes.store("airline"), dropped.routes).changed
    seqs = dropped.query("airline", SEQS)
    assert (seqs[0], seqs[-1]) == ((6,), (26,))
    dropped.transfer_all()
    assert dropped.payloads("flights/2")[25:] == ["planned", "waiting"]
    verified = invoke("verify", "flights")
    assert verified.exit_code == 0, verified.stdout
    assert not initialise_store(dropped.routes.store("airline"), dropped.routes).changed
