"""Step 1 of a hop: ask the destination, then plan the next batch in the source's ledger or find the one to resume."""

from __future__ import annotations

from tests.model.moves import commit, put
from tests.model.rules import Rules, Step
from tests.model.state import ALL_SEEN, IDLE, NOTHING_SEEN, SHOP, STORES, Batch, Driver, Ledger, Piece, Row, Snapshot, State


class Planning(Rules):
    """What a driver does in the source before anything is copied."""

    def ask(self, state: State, slot: int, hop: int) -> Step:
        """How far the destination is. The answer may be old when it is used."""
        arrivals = state.servers[hop].now.log.arrivals
        remembered = state.drivers[slot].remembered
        if "snapshot_before_lock" in self.broken and hop == 1:
            remembered = self._snapshot(state)
        asked = Driver("asked", hop, len(arrivals), arrivals[-1][0] if arrivals else 0, remembered=remembered)
        return f"a driver asks {STORES[hop]} how far hop {hop} is: batch {asked.number}", put(state, slot, asked)

    def plan(self, state: State, slot: int) -> Step:
        """Under the lock of the hop: stop, resume the newest batch, confirm it, or plan the next one."""
        driver = state.drivers[slot]
        hop, arrived = driver.hop, driver.number
        source, destination = state.servers[hop - 1], state.servers[hop].now.log.arrivals
        ledger = source.now.ledger
        if source.timeline != ledger.timeline and "no_fingerprint" not in self.broken:
            return self.alarm(state, slot, f"hop {hop}: {STORES[hop - 1]} is on another timeline")
        if arrived < ledger.received and "stale_answer_believed" not in self.broken:
            arrived = len(destination)  # asked again, before anybody is alarmed
        if (arrived > len(ledger.batches) and "no_plan_id" not in self.broken) or arrived < ledger.received:
            return self.alarm(
                state, slot, f"hop {hop}: {len(ledger.batches)} batches planned, {ledger.received} received, {arrived} arrived"
            )
        if not self.plans_ahead(ledger.received, len(ledger.batches)):
            if len(ledger.batches) > arrived:
                return self._resume(state, slot, arrived + 1)
            if len(ledger.batches) > ledger.received:
                return self._find_unconfirmed(state, slot)
        return self._plan_next(state, slot, ledger.batches)

    def _find_unconfirmed(self, state: State, slot: int) -> Step:
        """Another driver has published meanwhile: what the destination says now is confirmed, whatever it said before."""
        hop = state.drivers[slot].hop
        arrivals = state.servers[hop].now.log.arrivals
        if not arrivals:
            return f"a driver of hop {hop} finds nothing to confirm", put(state, slot, IDLE)
        found = Driver("published", hop, len(arrivals), arrivals[-1][0])
        return f"a driver of hop {hop} finds batch {found.number} published and not confirmed", put(state, slot, found)

    def _resume(self, state: State, slot: int, number: int) -> Step:
        driver = state.drivers[slot]
        store = state.servers[driver.hop - 1].now
        if "replan_instead_of_resume" in self.broken:
            return self._plan_next(state, slot, store.ledger.batches[:-1])
        batch = store.ledger.batches[number - 1]
        resumed = Driver("planned", driver.hop, number, batch.plan, batch, remembered=driver.remembered)
        return (
            f"a driver of hop {driver.hop} resumes batch {number}",
            commit(put(state, slot, resumed), driver.hop - 1, store),
        )

    def _plan_next(self, state: State, slot: int, before: tuple[Batch, ...]) -> Step:
        hop = state.drivers[slot].hop
        known = state.servers[hop - 1].now.ledger
        batch, ledger = self._cut_outbox(state, slot, before) if hop == 1 else (self._cut_log(state, before), known)
        if batch is None:
            if ledger == known:
                return f"a driver of hop {hop} finds nothing to move", put(state, slot, IDLE)
            label = f"a driver of hop {hop} finds nothing to move, and writes down how far it has looked"
            return label, self.commit_ledger(put(state, slot, IDLE), hop, ledger)
        ledger = ledger._replace(batches=(*before, batch))
        number = len(ledger.batches)
        planned = Driver("planned", hop, number, batch.plan, batch, remembered=batch.upper if self._remembers else None)
        counted = state._replace(plans=batch.plan)
        label = f"a driver of hop {hop} plans batch {number}: {_described(batch)}"
        if "read_before_ledger_commit" in self.broken:
            return f"{label}, not committed yet", put(counted, slot, planned._replace(uncommitted=ledger))
        return label, self.commit_ledger(put(counted, slot, planned), hop, ledger)

    @property
    def _remembers(self) -> bool:
        return "lower_from_memory" in self.broken

    def commit_ledger(self, state: State, hop: int, ledger: Ledger) -> State:
        """One flush that makes every row of the batch durable, and every transaction number that its snapshot knows."""
        store = state.servers[hop - 1].now
        after = store._replace(ledger=ledger, top_xid=max(store.top_xid, state.next_xid - 1 if hop == 1 else 0))
        return commit(state, hop - 1, after, durable="ledger_async" not in self.broken)

    def _cut_outbox(self, state: State, slot: int, before: tuple[Batch, ...]) -> tuple[Batch | None, Ledger]:
        """Rows of the first routed piece that has any, or of a new pair; and the ledger without what is read or empty."""
        ledger, rows = state.servers[SHOP].now.ledger, state.servers[SHOP].now.rows
        for piece in ledger.pieces:
            if not piece.is_routed:
                continue
            found = self._members_of(rows, piece, ledger)
            left = tuple(other for other in ledger.pieces if other != piece)
            if found:
                batch = self._cut(state, before, piece, found)
                if batch.count < len(found):
                    rest = piece._replace(after=batch.through)
                    left = tuple(rest if other == piece else other for other in ledger.pieces)
                return batch, ledger._replace(pieces=left)
            if "empty_piece_stays" in self.broken:
                return None, ledger
            ledger = ledger._replace(pieces=left)
            if "empty_piece_becomes_frontier" in self.broken and piece.upper == ALL_SEEN:
                return None, ledger._replace(lower=ALL_SEEN)
        return self._cut_new_pair(state, slot, before, ledger)

    def _members_of(self, rows: tuple[Row, ...], piece: Piece, ledger: Ledger) -> list[Row]:
        topics = piece.topics
        if "topics_of_the_hop" in self.broken:
            topics = "".join(topic for topic in topics if topic in ledger.topics)
        return self.members(rows, piece._replace(topics=topics))

    def _cut_new_pair(self, state: State, slot: int, before: tuple[Batch, ...], ledger: Ledger) -> tuple[Batch | None, Ledger]:
        driver, newest = state.drivers[slot], before[-1] if before else None
        lower, upper, after = ledger.lower, self._snapshot(state), ledger.anchor
        if "replan_instead_of_resume" in self.broken and before != ledger.batches:
            lower = ledger.batches[-1].lower or NOTHING_SEEN
        if "snapshot_before_lock" in self.broken:
            upper = driver.remembered or upper
        if self._remembers:
            lower = driver.remembered or NOTHING_SEEN
        if "id_watermark" in self.broken and newest:
            after = newest.through
        pair = Piece(ledger.topics, lower, upper, after)
        rows = self.members(state.servers[SHOP].now.rows, pair)
        if "capped_by_made_up_snapshot" in self.broken and len(rows) > self.bounds.batch_rows:
            xmax = sorted(row.xid for row in rows)[self.bounds.batch_rows - 1] + 1
            pair = pair._replace(upper=Snapshot(xmax, tuple(xid for xid in upper.open if xid < xmax)))
            rows = self.members(state.servers[SHOP].now.rows, pair)
        if not rows:
            return None, ledger if newest is None else ledger._replace(lower=upper)
        batch = self._cut(state, before, pair, rows)
        ledger = ledger._replace(lower=batch.upper or lower)
        if batch.count < len(rows) and "rest_forgotten" not in self.broken:
            ledger = ledger._replace(pieces=(*ledger.pieces, pair._replace(after=batch.through)))
        return batch, ledger

    def _cut(self, state: State, before: tuple[Batch, ...], piece: Piece, rows: list[Row]) -> Batch:
        arrival_seq = rows[: self.bounds.batch_rows]
        through, first = max(row.seq for row in arrival_seq), before[-1].last + 1 if before else 1
        return Batch(
            state.plans + 1, piece.lower, piece.upper, piece.after, through, first, len(arrival_seq),
            state.servers[SHOP].lost, piece.topics,
        )  # fmt: skip

    def _snapshot(self, state: State) -> Snapshot:
        open_ = [sender.xid for sender in state.senders if sender.xid]
        if "snapshot_on_standby" in self.broken:
            open_ = []
        if "snapshot_in_writing_transaction" in self.broken:
            open_ = [sender.xid for sender in state.senders[1:] if sender.xid]
        return Snapshot(state.next_xid, tuple(sorted(open_)))

    def members(self, rows: tuple[Row, ...], piece: Piece) -> list[Row]:
        """The committed rows of a piece, in the order in which they are delivered."""
        if "id_watermark" in self.broken:
            return [row for row in rows if piece.after < row.seq <= piece.through]
        found = [row for row in rows if piece.holds(row)]
        if "range_forgets_open" in self.broken:
            found = [row for row in found if row.xid >= piece.lower.xmax]
        if "order_by_xid" in self.broken:
            found.sort(key=lambda row: row.xid)
        return found

    def members_of_batch(self, rows: tuple[Row, ...], batch: Batch) -> list[Row]:
        """What a batch of hop 1 holds, by its own plan: nothing that came later changes it."""
        if batch.adopted is not None:
            return [row for row in rows if row.seq in batch.adopted]
        piece = Piece(batch.topics, batch.lower or NOTHING_SEEN, batch.upper, batch.after, batch.through)
        return self.members(rows, piece)

    def _cut_log(self, state: State, before: tuple[Batch, ...]) -> Batch | None:
        log = state.servers[1].now.log
        published = log.published
        if "staged_rows_read" in self.broken:
            published = max((log_position for log_position, _ in log.rows), default=0)
        after = before[-1].through if before else 0
        through = min(published, after + self.bounds.batch_rows)
        if through <= after:
            return None
        first = before[-1].last + 1 if before else 1
        return Batch(state.plans + 1, None, None, after, through, first, through - after, state.servers[1].lost)


def _described(batch: Batch) -> str:
    if batch.upper is None:
        return f"positions {batch.after + 1} to {batch.through}"
    return f"{batch.count} rows through seq {batch.through} that {_seen(batch.upper)} sees and {_seen(batch.lower)} does not"


def _seen(snapshot: Snapshot | None) -> str:
    return f"{snapshot.xmax}:{','.join(map(str, snapshot.open))}" if snapshot else "nothing"
