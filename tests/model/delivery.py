"""Steps 2 to 4 of a hop: copy the slice, publish the batch, confirm it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.moves import commit, put
from tests.model.passing import Passing
from tests.model.rules import Step
from tests.model.state import IDLE, SHOP, STORES, Driver, State


class Delivery(Passing):
    """What a driver does with a planned batch."""

    def read(self, state: State, slot: int) -> Step:
        """Reads the slice into an open transaction of the destination; or finds that it is there already."""
        driver = state.drivers[slot]
        hop, number, batch = driver.hop, driver.number, driver.batch
        log, source = state.servers[hop].now.log, state.servers[hop - 1].now
        assert batch is not None
        if number <= len(log.arrivals) or any(self._is_receipt_of(driver, receipt) for receipt in log.receipts):
            return f"a driver of hop {hop} finds batch {number} copied", put(state, slot, driver._replace(step="copied"))
        if hop == 1:
            messages = [row.message for row in self.members_of_batch(source.rows, batch)]
        else:
            messages = [message for log_position, message in source.log.rows if batch.after < log_position <= batch.through]
        if len(messages) != batch.count and "no_count" not in self.broken:
            return self.alarm(state, slot, f"hop {hop}: batch {number} has {len(messages)} rows, planned were {batch.count}")
        first, drawn = batch.first, state.drawn
        if "positions_from_sequence" in self.broken and hop == 1:
            first, drawn = drawn + 1, drawn + batch.count
        rows = tuple((first + slot_, message) for slot_, message in enumerate(messages))
        read = put(state, slot, driver._replace(step="read", rows=rows))._replace(drawn=drawn)
        return f"a driver of hop {hop} reads batch {number}: {', '.join(map(self.name, messages))}", read

    def _is_receipt_of(self, driver: Driver, receipt: tuple[int, int]) -> bool:
        return receipt[0] == driver.number and ("no_plan_id" in self.broken or receipt[1] == driver.plan)

    def guard(self, state: State, slot: int) -> Iterator[Step]:
        """`for share` on the hop's row: publish waits until the slice has ended."""
        driver = state.drivers[slot]
        hop, number = driver.hop, driver.number
        published = len(state.servers[hop].now.log.arrivals)
        if published >= number and "no_guard" not in self.broken:
            copied = driver._replace(step="copied", rows=())
            yield f"a driver of hop {hop} is refused: batch {number} is published", put(state, slot, copied)
        elif published < number - 1 and "no_guard" not in self.broken:
            if not self.plans_ahead(0, 0):
                yield self.alarm(state, slot, f"hop {hop}: slice of batch {number}, published are {published}")
        else:
            yield f"a driver of hop {hop} passes the guard of batch {number}", put(state, slot, driver._replace(step="guarded"))

    def finish_copy(self, state: State, slot: int) -> Iterator[Step]:
        """Publishes, unless a slice of the hop is between its guard and its commit."""
        driver = state.drivers[slot]
        if driver.uncommitted:
            after = self.commit_ledger(put(state, slot, driver._replace(uncommitted=None)), driver.hop, driver.uncommitted)
            yield f"a driver of hop {driver.hop} commits the plan of batch {driver.number}", after
        elif not self._is_guarded_by_anyone(state, driver.hop):
            yield self.publish(state, slot)

    def _is_guarded_by_anyone(self, state: State, hop: int) -> bool:
        if self.broken & {"no_guard", "plain_guard"}:
            return False
        return any(driver.step == "guarded" and driver.hop == hop for driver in state.drivers)

    def accept(self, state: State, slot: int) -> Step:
        """Rows and receipt in one commit, which may be lost in a crash until publish flushes it."""
        driver = state.drivers[slot]
        hop, number = driver.hop, driver.number
        store = state.servers[hop].now
        log, receipt = store.log, (number, driver.plan)
        copied = put(state, slot, driver._replace(step="copied", rows=()))
        arrival_seq = {log_position for log_position, _ in log.rows}
        if "no_keys" not in self.broken:
            if any(self._is_receipt_of(driver, known) for known in log.receipts):
                return f"a driver of hop {hop} collides: batch {number} was copied by another", copied
            if any(known == number for known, _ in log.receipts) or arrival_seq & {
                log_position for log_position, _ in driver.rows
            }:
                return self.alarm(state, slot, f"hop {hop}: rows of another plan are where batch {number} belongs")
        rows = tuple(sorted([*log.rows, *driver.rows]))
        receipts = tuple(sorted({*log.receipts, receipt}))
        after = store._replace(log=log._replace(rows=rows, receipts=receipts))
        return f"a driver of hop {hop} commits the rows and receipt of batch {number}", commit(copied, hop, after, durable=False)

    def publish(self, state: State, slot: int) -> Step:
        """Counts receipts and rows, and writes the arrival; finds it written already; or is refused."""
        driver = state.drivers[slot]
        hop, number = driver.hop, driver.number
        store = state.servers[hop].now
        log = store.log
        published = put(state, slot, Driver("published", hop, number, driver.plan, remembered=driver.remembered))
        if number <= len(log.arrivals):
            if log.arrivals[number - 1][0] != driver.plan and "no_plan_id" not in self.broken:
                return self.alarm(state, slot, f"hop {hop}: batch {number} arrived with another plan")
            return f"a driver of hop {hop} finds batch {number} published", commit(published, hop, store)
        if not self.broken & {"publish_without_receipts", "receipts_not_counted"} and (refused := self._refused(state, slot)):
            return refused
        last = driver.batch.last if driver.batch else 0
        if "positions_from_sequence" in self.broken and hop == 1:
            last = max((log_position for log_position, _ in log.rows), default=0)
        after = store._replace(log=log._replace(arrivals=(*log.arrivals, (driver.plan, last))))
        durable = "publish_async" not in self.broken
        return f"a driver of hop {hop} publishes batch {number}", commit(published, hop, after, durable=durable)

    def _refused(self, state: State, slot: int) -> Step | None:
        """Why a batch cannot be published yet, or at all."""
        driver = state.drivers[slot]
        hop, number, batch, log = driver.hop, driver.number, driver.batch, state.servers[driver.hop].now.log
        assert batch is not None
        if not any(self._is_receipt_of(driver, receipt) for receipt in log.receipts):
            return f"a driver of hop {hop} misses the receipt of batch {number}", put(state, slot, IDLE)
        if "positions_from_sequence" in self.broken:
            return None
        if (len(log.arrivals), log.published) != (number - 1, batch.first - 1):
            return self.alarm(state, slot, f"hop {hop}: batch {number} does not follow batch {len(log.arrivals)}")
        here = sum(batch.first <= log_position <= batch.last for log_position, _ in log.rows)
        if here != batch.count:
            return self.alarm(state, slot, f"hop {hop}: batch {number} has {here} rows, planned were {batch.count}")
        return None

    def confirm(self, state: State, slot: int) -> Step:
        driver = state.drivers[slot]
        hop, number = driver.hop, driver.number
        store = state.servers[hop - 1].now
        ledger = store.ledger
        if number > len(ledger.batches) or (ledger.batches[number - 1].plan != driver.plan and "no_plan_id" not in self.broken):
            return self.alarm(state, slot, f"hop {hop}: batch {number} arrived, {STORES[hop - 1]} did not plan it")
        confirmed = store._replace(ledger=ledger._replace(received=max(ledger.received, number)))
        done = put(state, slot, IDLE._replace(remembered=driver.remembered))
        return f"a driver of hop {hop} confirms batch {number} as received", commit(done, hop - 1, confirmed)

    def settle(self, state: State) -> Iterator[Step]:
        """The first hop is settled as far as the second is received (policy cascade), or settled (policy processed)."""
        if self.bounds.processed:
            yield from self._settle_processed(state)
        if self.bounds.hops < 2:
            return
        store, below = state.servers[SHOP].now, state.servers[1].now.ledger
        ledger = store.ledger
        confirmed = below.settled if self.bounds.processed else below.received
        through = below.batches[confirmed - 1].through if confirmed else 0
        if "settled_on_received" in self.broken:
            through = 1 << 30
        settled = sum(batch.last <= through for batch in ledger.batches[: ledger.received])
        if settled > ledger.settled:
            after = store._replace(ledger=ledger._replace(settled=settled))
            yield f"batches of hop 1 are settled through {settled}", commit(state, SHOP, after)

    def _settle_processed(self, state: State) -> Iterator[Step]:
        """A consumer acknowledges without waiting for the flush; who settles on its strength flushes first."""
        slot = self.bounds.hops
        last = state.servers[slot].now
        if last.acknowledged < last.log.published:
            after = last._replace(acknowledged=last.acknowledged + 1)
            yield f"a consumer acknowledges position {after.acknowledged}", commit(state, slot, after, durable=False)
        through = 1 << 30 if "settled_before_processed" in self.broken else last.acknowledged
        source = state.servers[slot - 1].now
        ledger = source.ledger
        settled = sum(batch.last <= through for batch in ledger.batches[: ledger.received])
        if settled > ledger.settled:
            flushed = state if "acknowledgement_not_flushed" in self.broken else commit(state, slot, last)
            after_source = source._replace(ledger=ledger._replace(settled=settled))
            yield f"batches of hop {slot} are processed and settled through {settled}", commit(flushed, slot - 1, after_source)
