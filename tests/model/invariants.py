"""What must hold in every state (safety), and what must still be possible from it (liveness)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tests.model.conservation import breaches
from tests.model.protocol import Protocol
from tests.model.state import HUB, IDLE, SHOP, STORES, Log, Sender, State, Store

RECOVERY_STEPS = 400


def violations(state: State, protocol: Protocol) -> Iterator[str]:
    """The guarantees that a state breaks, in words."""
    processed = protocol.bounds.processed
    yield from breaches(protocol, state)
    if state.alarm:
        yield f"G11: false alarm, no store ever lost anything: {state.alarm}"
    has_failed_over = any(server.timeline > 1 for server in state.servers)
    for hop in range(1, len(state.servers)):
        source, destination = state.servers[hop - 1], state.servers[hop]
        log = destination.now.log
        yield from _log_is_wrong(state, hop, log, protocol)
        if any(batch.after_loss for batch in source.now.ledger.batches):
            yield f"G11: hop {hop} planned a batch after {STORES[hop - 1]} had lost history"
        if not has_failed_over:
            for durable in (source.now, *source.losable):
                yield from _delivered_is_not_there(hop, durable, log)
            for durable in (destination.now, *destination.losable):
                yield from _confirmed_too_early(hop, source.now, durable)
    if not has_failed_over and len(state.servers) > 2:
        settled = state.servers[SHOP].now.ledger
        through = settled.batches[settled.settled - 1].last if settled.settled else 0
        if any(through > store.log.published for store in (state.servers[2].now, *state.servers[2].losable)):
            yield f"G7: hop 1 is settled through position {through}, bank has not published that"
    if processed and not has_failed_over:
        yield from _settled_before_processed(state)


def _settled_before_processed(state: State) -> Iterator[str]:
    """The last hop's positions are those of the consumer, and those of hop 1: every log holds every message."""
    last = state.servers[-1]
    acknowledged = min(store.acknowledged for store in (last.now, *last.losable))
    for hop, source in enumerate(state.servers[:-1], start=1):
        ledger = source.now.ledger
        through = ledger.batches[ledger.settled - 1].last if ledger.settled else 0
        if through > acknowledged:
            yield f"G7: hop {hop} is settled through position {through}, the consumer has acknowledged {acknowledged}, or may lose more"


def _log_is_wrong(state: State, hop: int, log: Log, protocol: Protocol) -> Iterator[str]:
    readable = log.readable
    log_positions, messages = [log_position for log_position, _ in readable], [message for _, message in readable]
    if len(set(messages)) < len(messages) or len(set(log_positions)) < len(log_positions):
        yield f"G3: a message is twice in the published log of hop {hop}: {readable}"
    if log_positions != list(range(1, log.published + 1)):
        yield f"G4: the published log of hop {hop} has positions {log_positions}, published through {log.published}"
    if hop == 1:
        shop = state.servers[SHOP].now
        sent = {row.message: row for row in (*shop.rows, *shop.dropped)}
        for first, later in combinations((sent[message] for message in messages if message in sent), 2):
            if first.after >> later.message & 1 and (first.topic == later.topic or not protocol.bounds.changes):
                yield "G5: a message stands before one that had committed before it was inserted"
    elif messages != [message for _, message in state.servers[1].now.log.readable][: len(messages)] and not any(
        server.timeline > 1 for server in state.servers
    ):
        yield "G5: the second log has another order than the first"


def _delivered_is_not_there(hop: int, source: Store, log: Log) -> Iterator[str]:
    """Whatever a crash leaves of the source holds everything that consumers of the destination have read."""
    rows = (*source.rows, *source.dropped)
    sent = {row.message for row in rows} if hop == 1 else {message for _, message in source.log.readable}
    if {message for _, message in log.readable} - sent:
        yield f"G1: hop {hop} published a message that {STORES[hop - 1]} has not, or may lose in a crash"


def _confirmed_too_early(hop: int, source: Store, destination: Store) -> Iterator[str]:
    if source.ledger.received > len(destination.log.arrivals):
        yield f"G7: batch {source.ledger.received} of hop {hop} is confirmed, {STORES[hop]} has not published it, or may lose it"


class Liveness:
    """From every state, with the faults over, a fresh driver must bring everything home. Asked once per content of the stores."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._known: dict[tuple[object, ...], str | None] = {}

    def violated(self, state: State) -> str | None:
        """Why not everything can be delivered any more; None when it can, or when a hop has to stop after a failover."""
        if state.alarm:
            return None
        if any(server.timeline > 1 for server in state.servers) and not self._can_be_repaired(state):
            return None
        key = (tuple((server.now, server.timeline) for server in state.servers), state.next_xid, state.plans, state.retired)
        if key not in self._known:
            self._known[key] = self._recover(state)
        return self._known[key]

    def _can_be_repaired(self, state: State) -> bool:
        """With one hop; unless a destination lost what retention had dropped, which nobody can send again."""
        return self._protocol.bounds.repairs and not (state.servers[HUB].timeline > 1 and state.servers[SHOP].now.dropped)

    def _recover(self, state: State) -> str | None:
        """Everybody is gone, open transactions are rolled back, one driver works hop by hop until nothing changes."""
        state = state._replace(
            senders=tuple(Sender(sender.begun) for sender in state.senders),
            drivers=(IDLE,),
            crashes=0,
            failovers=0,
            changes=0,
        )
        if self._can_be_repaired(state) and self._protocol.needs_repair(state):
            state = self._protocol.reanchor(state)
        state = self._work_off(state)
        if found := self._undelivered(state):
            return found
        if self._protocol.bounds.changes:  # what was kept for a topic that comes back is moved then
            state = self._work_off(self._protocol.change_topics(state, self._protocol.bounds.all_topics))
            if found := self._undelivered(state):
                return f"{found}, though all topics came back"
        return next(violations(state, self._protocol), None)

    def _work_off(self, state: State) -> State:
        for hop in range(1, len(state.servers)):
            for _ in range(RECOVERY_STEPS):
                before = tuple(server.now for server in state.servers)
                state = self._drive(state, hop)
                if state.alarm or before == tuple(server.now for server in state.servers):
                    break
        return state

    def _undelivered(self, state: State) -> str | None:
        if state.alarm:
            return f"liveness: the next driver is stopped by a false alarm: {state.alarm}"
        shop = state.servers[SHOP].now
        sent = {row.message for row in shop.rows if row.topic in shop.ledger.topics and not state.retired >> row.message & 1}
        for hop in range(1, len(state.servers)):
            arrived = {message for _, message in state.servers[hop].now.log.readable}
            if missing := [self._protocol.name(message) for message in sorted(sent - arrived)]:
                return f"G2: with everything healed, hop {hop} delivers {len(arrived)} messages, never {missing}"
            sent = arrived
        return None

    def _drive(self, state: State, hop: int) -> State:
        """One round of a fresh driver: from asking to confirming, or to the error that ends it."""
        label_state = list(self._protocol.driver_steps(state, 0))[hop - 1]
        state = label_state[1]
        while state.drivers[0].step != "idle" and not state.alarm:
            following = list(self._protocol.driver_steps(state, 0))
            if not following:
                return state
            state = following[0][1]
        return state._replace(drivers=(IDLE,))
