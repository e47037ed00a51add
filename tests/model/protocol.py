"""The protocol of two hops, one small step at a time: who may do what next, in every state.

Every step of a driver is one transaction, or a piece of one that others can see or be stopped by. Names in `broken` switch one
rule of the protocol off; variants.py says which are known and what each of them is.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.changes import Changes
from tests.model.moves import commit, put, restart, with_sender, with_server
from tests.model.rules import Step
from tests.model.state import IDLE, SHOP, STORES, Driver, Ledger, Row, Sender, Server, State, Store


class Protocol(Changes):
    """The transitions of the model: correct, or with rules switched off."""

    def start(self) -> State:
        empty = Store(ledger=Ledger(topics=self.bounds.topics))
        standby = empty if self.bounds.failovers else None
        return State(
            servers=(Server(now=empty, standby=standby),) * (self.bounds.hops + 1),
            senders=(Sender(),) * len(self.bounds.messages),
            drivers=(IDLE,) * self.bounds.drivers,
            crashes=self.bounds.crashes,
            failovers=self.bounds.failovers,
            changes=self.bounds.changes,
        )

    def steps(self, state: State) -> Iterator[Step]:
        """All that may happen next: what is said of it, and the state after it."""
        if state.alarm:
            return
        yield from self._producers(state)
        seen: set[Driver] = set()
        for slot, driver in enumerate(state.drivers):
            if driver not in seen:
                seen.add(driver)
                yield from self.driver_steps(state, slot)
                if driver.step != "idle":
                    yield f"a driver of hop {driver.hop} is killed ({driver.step})", put(state, slot, IDLE)
        yield from self.settle(state)
        yield from self.pass_idle(state)
        if state.passing is None:  # each of them locks the hop
            yield from self.operators(state)
        yield from self._faults(state)

    def _producers(self, state: State) -> Iterator[Step]:
        for number, sender in enumerate(state.senders):
            name = "AB"[number]
            if sender.row is not None:
                row = sender.row
                yield f"{name} commits {self.name(row.message)}", self._commit_row(state, number, row)
                yield f"{name} rolls {self.name(row.message)} back", with_sender(state, number, sender._replace(xid=0, row=None))
            elif sender.xid:
                yield self._insert(state, number)
            elif sender.begun < self.bounds.messages[number]:
                begun = Sender(sender.begun + 1, state.next_xid)
                opened = with_sender(state, number, begun)._replace(next_xid=state.next_xid + 1)
                if number == 0:
                    yield f"{name} begins transaction {begun.xid}", opened
                else:
                    label, inserted = self._insert(opened, number)
                    yield f"{label} in transaction {begun.xid}", inserted

    def _insert(self, state: State, number: int) -> Step:
        sender = state.senders[number]
        message = sum(self.bounds.messages[:number]) + sender.begun - 1
        shop = state.servers[SHOP].now
        after = sum(1 << row.message for row in (*shop.rows, *shop.dropped))
        row = Row(state.next_seq, sender.xid, message, after, self.bounds.sends[number])
        label = f"{'AB'[number]} inserts {self.name(message)} as seq {row.seq}"
        return label, with_sender(state, number, sender._replace(row=row))._replace(next_seq=state.next_seq + 1)

    def _commit_row(self, state: State, number: int, row: Row) -> State:
        shop = state.servers[SHOP].now
        rows = tuple(sorted([*shop.rows, row]))
        after = with_sender(state, number, state.senders[number]._replace(xid=0, row=None))
        is_durable = number < len(state.senders) - 1
        return commit(after, SHOP, shop._replace(rows=rows, top_xid=max(shop.top_xid, row.xid)), durable=is_durable)

    def driver_steps(self, state: State, slot: int) -> Iterator[Step]:
        """What one driver may do next."""
        driver = state.drivers[slot]
        match driver.step:
            case "idle":
                for hop in range(1, self.bounds.hops + 1):
                    yield self.ask(state, slot, hop)
            case "asked":
                if not self._is_locked(state, driver.hop):
                    yield self.plan(state, slot)
            case "planned":
                yield self.read(state, slot)
            case "read":
                yield from self.guard(state, slot)
            case "guarded":
                yield self.accept(state, slot)
            case "copied":
                yield from self.finish_copy(state, slot)
            case "published":
                yield self.confirm(state, slot)
        yield from self._steps_too_early(state, slot)

    def _is_locked(self, state: State, hop: int) -> bool:
        """By an uncommitted plan, or by a session that moves an idle hop on."""
        return (hop == 1 and state.passing is not None) or any(
            driver.uncommitted and driver.hop == hop for driver in state.drivers
        )

    def _steps_too_early(self, state: State, slot: int) -> Iterator[Step]:
        """What only a broken protocol lets a driver do."""
        step = state.drivers[slot].step
        if step == "planned" and "publish_without_receipts" in self.broken:
            yield self.publish(state, slot)
        if step == "copied" and "confirm_before_publish" in self.broken:
            yield self.confirm(state, slot)

    def _faults(self, state: State) -> Iterator[Step]:
        for slot in self.bounds.fragile[: self.bounds.hops + 1]:
            server = state.servers[slot]
            if state.crashes:
                for left in {server.now, *server.losable}:
                    crashed = server._replace(now=left, losable=())
                    lost = "" if left == server.now else " and loses what was not flushed"
                    yield f"{STORES[slot]} crashes{lost}", restart(state, slot, crashed)._replace(crashes=state.crashes - 1)
            if state.failovers:
                flushed = server.losable[0] if server.losable else server.now
                if server.standby != flushed:
                    yield (
                        f"the standby of {STORES[slot]} catches up",
                        with_server(state, slot, server._replace(standby=flushed)),
                    )
                left = server.standby if state.failovers > 1 else None
                promoted = Server(server.standby or Store(), (), left, server.timeline + 1, server.standby != server.now)
                yield (
                    f"{STORES[slot]} fails over{' and loses the newest commits' if promoted.lost else ''}",
                    restart(state, slot, promoted)._replace(failovers=state.failovers - 1),
                )
                if slot == SHOP and self.bounds.reloads:
                    reloaded = Server(server.now._replace(top_xid=0), (), left, server.timeline + 1)
                    yield (
                        "shop is dumped and reloaded into a fresh cluster",
                        restart(state, slot, reloaded)._replace(failovers=state.failovers - 1),
                    )
