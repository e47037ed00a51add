"""What the driver of another hop, or the watch, does to the first hop when that has nothing to move: it moves its frontier on.

Two steps that others can see: the lock with the snapshot, then the look with the COMMIT. Producers commit in between.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.planning import Planning
from tests.model.rules import Step
from tests.model.state import SHOP, Ledger, Piece, Snapshot, State


class Passing(Planning):
    """Passing an idle hop."""

    def pass_idle(self, state: State) -> Iterator[Step]:
        """All that may happen next to hop 1 by a session that is not its driver."""
        ledger = state.servers[SHOP].now.ledger
        if state.passing is not None:
            yield from self._look(state, ledger, state.passing)
        elif self.bounds.passes and self._may_pass(state, ledger):
            yield "another session locks hop 1, which has nothing under way", state._replace(passing=self._snapshot(state))

    def _may_pass(self, state: State, ledger: Ledger) -> bool:
        if "idle_look_before_snapshot" in self.broken and self._finds(state, ledger, None):
            return False
        has_unfinished = len(ledger.batches) > ledger.received or any(piece.is_routed for piece in ledger.pieces)
        is_locked = any(driver.uncommitted and driver.hop == 1 for driver in state.drivers)
        return not has_unfinished and not is_locked and state.servers[SHOP].timeline == ledger.timeline

    def _look(self, state: State, ledger: Ledger, taken: Snapshot) -> Iterator[Step]:
        yield "the session that has locked hop 1 is killed", state._replace(passing=None)
        if "idle_look_before_snapshot" in self.broken:
            yield self._move(state, ledger, self._snapshot(state))
            return
        for xmax in range(ledger.lower.xmax + 1, taken.xmax + 1):
            known = Snapshot(xmax, tuple(xid for xid in taken.open if xid < xmax))
            if "idle_cut_forgets_open" in self.broken:
                known = known._replace(open=())
            if not self._finds(state, ledger, known):
                yield self._move(state, ledger, taken if "idle_moved_beyond_the_look" in self.broken else known)

    def _finds(self, state: State, ledger: Ledger, upper: Snapshot | None) -> bool:
        return bool(self.members(state.servers[SHOP].now.rows, Piece(ledger.topics, ledger.lower, upper, ledger.anchor)))

    def _move(self, state: State, ledger: Ledger, seen: Snapshot) -> Step:
        label = f"the other session finds nothing to move, and writes down what it has seen, {seen.xmax}:{','.join(map(str, seen.open))}"
        return label, self.commit_ledger(state._replace(passing=None), 1, ledger._replace(lower=seen))
