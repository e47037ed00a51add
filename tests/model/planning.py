"""Step 1 of a hop: ask the destination, then plan the next batch in the source's ledger or find the one to resume."""

from __future__ import annotations

from tests.model.moves import commit, put
from tests.model.rules import Rules, Step
from tests.model.state import IDLE, NOTHING_SEEN, SHOP, STORES, Batch, Driver, Ledger, Row, Snapshot, State


class Planning(Rules):
    """What a driver does in the source before anything is copied."""

    def ask(self, state: State, place: int, hop: int) -> Step:
        """How far the destination is. The answer may be old when it is used."""
        arrivals = state.servers[hop].now.log.arrivals
        remembered = state.drivers[place].remembered
        if "snapshot_before_lock" in self.broken and hop == 1:
            remembered = self._snapshot(state)
        asked = Driver("asked", hop, len(arrivals), arrivals[-1][0] if arrivals else 0, remembered=remembered)
        return f"a driver asks {STORES[hop]} how far hop {hop} is: batch {asked.number}", put(state, place, asked)

    def plan(self, state: State, place: int) -> Step:
        """Under the lock of the hop: stop, resume the newest batch, confirm it, or plan the next one."""
        driver = state.drivers[place]
        hop, arrived = driver.hop, driver.number
        source, destination = state.servers[hop - 1], state.servers[hop].now.log.arrivals
        ledger = source.now.ledger
        if source.timeline != ledger.timeline and "no_fingerprint" not in self.broken:
            return self.alarm(state, place, f"hop {hop}: {STORES[hop - 1]} is on another timeline")
        if arrived < ledger.received and "stale_answer_believed" not in self.broken:
            arrived = len(destination)  # asked again, before anybody is alarmed
        if (arrived > len(ledger.batches) and "no_plan_id" not in self.broken) or arrived < ledger.received:
            return self.alarm(
                state, place, f"hop {hop}: {len(ledger.batches)} batches planned, {ledger.received} received, {arrived} arrived"
            )
        if not self.plans_ahead(ledger.received, len(ledger.batches)):
            if len(ledger.batches) > arrived:
                return self._resume(state, place)
            if len(ledger.batches) > ledger.received:
                return self._find_unconfirmed(state, place)
        return self._plan_next(state, place, ledger.batches)

    def _find_unconfirmed(self, state: State, place: int) -> Step:
        """Another driver has published meanwhile: what the destination says now is confirmed, whatever it said before."""
        hop = state.drivers[place].hop
        arrivals = state.servers[hop].now.log.arrivals
        if not arrivals:
            return f"a driver of hop {hop} finds nothing to confirm", put(state, place, IDLE)
        found = Driver("published", hop, len(arrivals), arrivals[-1][0])
        return f"a driver of hop {hop} finds batch {found.number} published and not confirmed", put(state, place, found)

    def _resume(self, state: State, place: int) -> Step:
        driver = state.drivers[place]
        store = state.servers[driver.hop - 1].now
        if "replan_instead_of_resume" in self.broken:
            return self._plan_next(state, place, store.ledger.batches[:-1])
        number, batch = len(store.ledger.batches), store.ledger.batches[-1]
        resumed = Driver("planned", driver.hop, number, batch.plan, batch, remembered=driver.remembered)
        return (
            f"a driver of hop {driver.hop} resumes batch {number}",
            commit(put(state, place, resumed), driver.hop - 1, store),
        )

    def _plan_next(self, state: State, place: int, before: tuple[Batch, ...]) -> Step:
        hop = state.drivers[place].hop
        batch = self._cut_outbox(state, place, before) if hop == 1 else self._cut_log(state, before)
        store = state.servers[hop - 1].now
        if isinstance(batch, Snapshot):
            ledger = store.ledger._replace(lower=batch)
            label = "a driver of hop 1 finds nothing between two snapshots, and remembers the second"
            return label, self.commit_ledger(put(state, place, IDLE), hop, ledger)
        if batch is None:
            return f"a driver of hop {hop} finds nothing to move", put(state, place, IDLE)
        ledger = store.ledger._replace(batches=(*before, batch), lower=batch.upper or store.ledger.lower)
        number = len(ledger.batches)
        planned = Driver("planned", hop, number, batch.plan, batch, remembered=batch.upper if self._remembers else None)
        counted = state._replace(plans=batch.plan)
        label = f"a driver of hop {hop} plans batch {number}: {_described(batch)}"
        if "read_before_ledger_commit" in self.broken:
            return f"{label}, not committed yet", put(counted, place, planned._replace(uncommitted=ledger))
        return label, self.commit_ledger(put(counted, place, planned), hop, ledger)

    @property
    def _remembers(self) -> bool:
        return "lower_from_memory" in self.broken

    def commit_ledger(self, state: State, hop: int, ledger: Ledger) -> State:
        """One flush that makes every row of the batch durable, and every transaction number that its snapshot knows."""
        store = state.servers[hop - 1].now
        after = store._replace(ledger=ledger, top_xid=max(store.top_xid, state.next_xid - 1 if hop == 1 else 0))
        return commit(state, hop - 1, after, durable="ledger_async" not in self.broken)

    def _cut_outbox(self, state: State, place: int, before: tuple[Batch, ...]) -> Batch | Snapshot | None:
        """The next rows of the pair; None when there is nothing new, a snapshot when an empty pair is to be skipped."""
        shop, driver = state.servers[SHOP].now, state.drivers[place]
        newest = before[-1] if before else None
        if newest and not newest.exhausted:
            lower, upper, after = newest.lower or NOTHING_SEEN, newest.upper or NOTHING_SEEN, newest.through
        else:
            lower, upper, after = shop.ledger.lower, self._snapshot(state), 0
            if "replan_instead_of_resume" in self.broken and before != shop.ledger.batches:
                lower = shop.ledger.batches[-1].lower or NOTHING_SEEN
            if "snapshot_before_lock" in self.broken:
                upper = driver.remembered or upper
            if self._remembers:
                lower = driver.remembered or NOTHING_SEEN
            if "id_watermark" in self.broken and newest:
                after = newest.through
        rows = self.members(shop.rows, lower, upper, after, 1 << 30)
        if "capped_by_made_up_snapshot" in self.broken and len(rows) > self.bounds.batch_rows:
            xmax = sorted(row.xid for row in rows)[self.bounds.batch_rows - 1] + 1
            upper = Snapshot(xmax, tuple(xid for xid in upper.open if xid < xmax))
            rows = self.members(shop.rows, lower, upper, after, 1 << 30)
        if not rows:
            return None if upper == lower or newest is None else upper
        taken = rows[: self.bounds.batch_rows]
        through = max(row.seq for row in taken)
        first = before[-1].last + 1 if before else 1
        return Batch(
            state.plans + 1, lower, upper, after, through, first, len(taken), len(taken) == len(rows), state.servers[SHOP].lost
        )

    def _snapshot(self, state: State) -> Snapshot:
        open_ = [sender.xid for sender in state.senders if sender.xid]
        if "snapshot_on_standby" in self.broken:
            open_ = []
        if "snapshot_in_writing_transaction" in self.broken:
            open_ = [sender.xid for sender in state.senders[1:] if sender.xid]
        return Snapshot(state.next_xid, tuple(sorted(open_)))

    def members(self, rows: tuple[Row, ...], lower: Snapshot, upper: Snapshot, after: int, through: int) -> list[Row]:
        """The committed rows that a pair holds between two seqs, in the order in which they are delivered."""
        if "id_watermark" in self.broken:
            return [row for row in rows if after < row.seq <= through]
        found = [row for row in rows if after < row.seq <= through and upper.sees(row.xid) and not lower.sees(row.xid)]
        if "range_forgets_open" in self.broken:
            found = [row for row in found if row.xid >= lower.xmax]
        if "order_by_xid" in self.broken:
            found.sort(key=lambda row: row.xid)
        return found

    def _cut_log(self, state: State, before: tuple[Batch, ...]) -> Batch | None:
        log = state.servers[1].now.log
        published = log.published
        if "staged_rows_read" in self.broken:
            published = max((position for position, _ in log.rows), default=0)
        after = before[-1].through if before else 0
        through = min(published, after + self.bounds.batch_rows)
        if through <= after:
            return None
        first = before[-1].last + 1 if before else 1
        return Batch(state.plans + 1, None, None, after, through, first, through - after, True, state.servers[1].lost)


def _described(batch: Batch) -> str:
    if batch.upper is None:
        return f"positions {batch.after + 1} to {batch.through}"
    return f"{batch.count} rows through seq {batch.through} that {_seen(batch.upper)} sees and {_seen(batch.lower)} does not"


def _seen(snapshot: Snapshot | None) -> str:
    return f"{snapshot.xmax}:{','.join(map(str, snapshot.open))}" if snapshot else "nothing"
