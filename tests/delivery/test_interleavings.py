"""Three stores, real transfers, producers in concurrent transactions, drivers that fail anywhere: every stream is the brute force's."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from relaybox.errors import RelayboxError
from relaybox.failpoints import FAILPOINTS
from tests.delivery.outcomes import decide_again, read_outcome, wanted
from tests.delivery.producing import Producers
from tests.delivery.stored import FORGET
from tests.support.world import World

pytestmark = pytest.mark.thorough

EXAMPLES = max(2, int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) // 36)
"""Of each order, or pair of orders. The first one is always the simplest: hardly anything happens in it."""

STEPS = 25

INJECTIONS = tuple(
    failpoint
    for failpoint in FAILPOINTS
    if failpoint.split(".")[0] in {"outbox_segments", "plan", "log_segments", "slice", "publish", "senders", "deliver", "confirm"}
    and failpoint != "slice.piping"
)
"""Where a transfer may fail: everywhere but where a COPY is running, which can't be made to raise."""

generated = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 2,  # the default run is the same every time; longer ones look further and print how to repeat
    print_blob=True,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example takes seconds, and its steps are short enough to read
)

_texts = count(1)


@pytest.mark.timeout(120 + 20 * EXAMPLES)
@pytest.mark.parametrize("orders", [("fifo",), ("causal",), ("none", "total")], ids="-".join)
def test_every_store_delivers_what_the_rules_make_of_its_log(
    make_world: Callable[[], AbstractContextManager[World]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    orders: tuple[str, ...],
) -> None:
    """And all stores of a route deliver the same sequence, since the decision is a function of the log; also if it is made again."""
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))

    @generated
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        with make_world() as world:
            world.change_route(
                order=data.draw(st.sampled_from(orders)),
                message_id_window=data.draw(st.sampled_from((0, 0, 5))),
                limits={
                    "holdback_rows": data.draw(st.sampled_from((2, 10_000))),
                    "batch_rows": data.draw(st.sampled_from((3, 1000))),
                },
            )
            committed_count = live(world, data, monkeypatch)
            hub, analytics = (read_outcome(partial(world.query, store), "flights") for store in ("hub", "analytics"))
            for store, outcome in (("hub", hub), ("analytics", analytics)):
                brute = decide_again(partial(world.query, store), "flights")
                assert brute.arrival_seq == committed_count
                assert (outcome.delivered, outcome.stalled) == (wanted(brute).delivered, {}) or outcome.stalled
                if not outcome.stalled:
                    assert outcome == wanted(brute)
            assert [log_position for _, log_position in hub.delivered] == [
                log_position for _, log_position in analytics.delivered
            ]
            if not hub.stalled:
                for store in ("hub", "analytics"):
                    world.query(store, FORGET)
                world.transfer_all()
                assert [read_outcome(partial(world.query, store), "flights") for store in ("hub", "analytics")] == [
                    hub,
                    analytics,
                ]

    check()


def live(world: World, data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> int:
    """A life of some steps, and the transfers that bring everything home. Returns how many messages were committed."""
    with ExitStack() as stack:
        producers = Producers([stack.enter_context(world.session()) for _ in range(3)], data.draw, world.route.order)
        late(world, 2)
        world.transfer()
        steps = {"send": 12, "end": 4, "transfer": 4, "epoch": 1, "declare": 1}
        for _ in range(STEPS):
            match data.draw(st.sampled_from([step for step, times in steps.items() for _ in range(times)])):
                case "send":
                    producers.send()
                case "end":
                    producers.end()
                case "epoch":
                    producers.begin_epoch()
                case "declare":
                    producers.declare()
                case "transfer":
                    inject(world, data, monkeypatch)
        producers.finish()
        late(world, 1)
        monkeypatch.delenv("RELAYBOX_FAILPOINTS", raising=False)
        world.transfer_all()
        return producers.committed_count + 2


def late(world: World, index: int) -> None:
    """Sender Z's message: every life has one that arrives a batch too early, and is held back where the order says so."""
    world.query("airline", "select relaybox.declare_sender('Z', 'gapless')")
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'Z', %s, %s)",
        index,
        f"Z {index}",
    )


def inject(world: World, data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some hop runs, and fails at some moment if it gets there."""
    hop = data.draw(st.sampled_from(world.route.hops))
    failpoint = data.draw(st.sampled_from((*INJECTIONS, *[None] * (len(INJECTIONS) // 2))))
    note(f"{hop.name} until {failpoint}")
    if failpoint:
        # a text acts once in a process: blanks make it another one
        monkeypatch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}:{data.draw(st.integers(1, 2))}=raise 40001{' ' * next(_texts)}")
    with suppress(RelayboxError):
        world.transfer(hop)
    monkeypatch.delenv("RELAYBOX_FAILPOINTS", raising=False)
