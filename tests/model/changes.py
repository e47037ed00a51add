"""What is done to a route while messages are in flight: its topics change, what is kept is retired or dropped, a restored hop is reanchored.

Each is one transaction in the origin, as `relaybox init`, `retire`, `retention` and `reanchor` are for one store.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from tests.model.delivery import Delivery
from tests.model.moves import commit, in_order, with_server
from tests.model.rules import Step
from tests.model.state import ALL_SEEN, HUB, IDLE, LAST_SEQ, NOTHING_SEEN, SHOP, Batch, Ledger, Piece, Row, Snapshot, State


class Changes(Delivery):
    """What operators do to the first hop."""

    def operators(self, state: State) -> Iterator[Step]:
        """Who changes the file, runs retention, or repairs; at any time, also with two files in use one after the other."""
        if state.changes:
            for topics in _choices(self.bounds.all_topics):
                if topics != state.servers[SHOP].now.ledger.topics:
                    changed = self.change_topics(state, topics)
                    yield f"init gives the route the topics {topics}", changed._replace(changes=state.changes - 1)
            if self.bounds.retires:
                yield from self._retire_any(state)
        if self.bounds.retention:
            yield from self._drop(state)
        has_writers = any(sender.row for sender in state.senders)  # a lock waits for those who have written
        if self.bounds.repairs and self.needs_repair(state) and not has_writers:
            yield "reanchor of hop 1", self.reanchor(state)

    def change_topics(self, state: State, topics: str) -> State:
        """What was not planned of a removed topic is kept as unrouted; of an added one everything that was never read comes first."""
        shop = state.servers[SHOP].now
        ledger = shop.ledger
        removed = [topic for topic in ledger.topics if topic not in topics]
        added = [topic for topic in topics if topic not in ledger.topics]
        pieces = [part for piece in ledger.pieces for part in self._split(piece, removed)]
        if "removed_topic_not_kept" not in self.broken:
            seen = self._snapshot(state) if "kept_from_now_on" in self.broken else ledger.lower
            pieces += [Piece(topic, seen, None, ledger.anchor, is_routed=False) for topic in removed]
        if "rest_behind_what_came_later" in self.broken:
            pieces.sort(key=lambda piece: piece.upper is not None)
        for topic in added:
            pieces = self._bring_back(state, pieces, topic)
        return commit(state, SHOP, shop._replace(ledger=ledger._replace(topics=topics, pieces=tuple(pieces))))

    def _split(self, piece: Piece, removed: list[str]) -> Iterator[Piece]:
        gone = [topic for topic in piece.topics if topic in removed]
        if not gone or not piece.is_routed or "topics_of_the_hop" in self.broken:
            yield piece
            return
        if left := "".join(topic for topic in piece.topics if topic not in gone):
            yield piece._replace(topics=left)
        if "rest_of_removed_topic_dropped" not in self.broken:
            yield from (piece._replace(topics=topic, is_routed=False) for topic in gone)

    def _bring_back(self, state: State, pieces: list[Piece], topic: str) -> list[Piece]:
        ledger = state.servers[SHOP].now.ledger
        frontier = self._snapshot(state) if "returned_topic_read_until_now" in self.broken else ledger.lower
        was_there = any(piece.topics == topic and piece.upper is None for piece in pieces)
        pieces = [
            piece._replace(is_routed=True, upper=piece.upper or frontier)
            if not piece.is_routed and not piece.is_retired and piece.topics == topic
            else piece
            for piece in pieces
        ]
        if was_there or "added_topic_not_caught_up" in self.broken:
            return pieces
        if ledger.anchor and "added_topic_read_by_snapshots_only" not in self.broken:
            pieces.append(Piece(topic, NOTHING_SEEN, ALL_SEEN, 0, ledger.anchor))
        after = 0 if "added_topic_read_by_snapshots_only" in self.broken else ledger.anchor
        return [*pieces, Piece(topic, NOTHING_SEEN, frontier, after)]

    def _retire_any(self, state: State) -> Iterator[Step]:
        for topic in self.bounds.all_topics:
            if topic not in state.servers[SHOP].now.ledger.topics:
                retired = self.retire(state, topic)
                yield f"retire gives up what is kept of topic {topic}", retired._replace(changes=state.changes - 1)

    def retire(self, state: State, topic: str) -> State:
        """What has committed and was not planned is given up; what commits later is unrouted. The frontier comes up to this moment."""
        shop = state.servers[SHOP].now
        ledger = shop.ledger
        until = self._snapshot(state)
        retired_until = Snapshot(until.xmax, ()) if "retired_with_open_transactions" in self.broken else until
        pieces = list(ledger.pieces)
        if not any(topic in piece.topics for piece in pieces) and not self._had(ledger, topic):
            pieces += [Piece(topic, NOTHING_SEEN, ALL_SEEN, 0, ledger.anchor, is_routed=False)] if ledger.anchor else []
            pieces.append(Piece(topic, NOTHING_SEEN, None, ledger.anchor, is_routed=False))
        kept = [piece for piece in pieces if piece.is_routed or piece.is_retired or piece.topics != topic]
        if "retired_beyond_the_frontier" not in self.broken:
            kept.append(Piece(ledger.topics, ledger.lower, until, ledger.anchor))
            ledger = ledger._replace(lower=until)
        for piece in pieces:
            if piece in kept:
                continue
            upper, through = piece.upper or retired_until, min(piece.through, state.next_seq - 1)
            if "retired_with_open_transactions" in self.broken:
                through = piece.through
            kept.append(piece._replace(upper=upper, through=through, is_retired=True))
            if piece.upper is None:
                kept.append(piece._replace(lower=until))
        told = sum(1 << row.message for row in shop.rows if any(piece.holds(row) for piece in pieces if piece not in kept))
        state = state._replace(retired=state.retired | told)
        return commit(state, SHOP, shop._replace(ledger=ledger._replace(pieces=tuple(kept))))

    @staticmethod
    def _had(ledger: Ledger, topic: str) -> bool:
        return any(topic in batch.topics for batch in ledger.batches)

    def _drop(self, state: State) -> Iterator[Step]:
        """A row that is in exactly one batch, and that one settled, is needed by nobody; any other row is kept."""
        shop = state.servers[SHOP].now
        for row in shop.rows:
            if self._may_go(state, row):
                rows = tuple(other for other in shop.rows if other != row)
                after = shop._replace(rows=rows, dropped=tuple(sorted([*shop.dropped, row])))
                yield f"retention drops {self.name(row.message)}", commit(state, SHOP, after)

    def _may_go(self, state: State, row: Row) -> bool:
        shop = state.servers[SHOP].now
        ledger = shop.ledger
        settled = self.settled_batches(ledger)
        numbers = self.batches_of(shop.rows, ledger, row)
        if any(number > settled for number in numbers):
            return False
        if "unrouted_topics_hold_nothing" in self.broken and row.topic not in ledger.topics:
            return True
        if "frontier_counts_as_moved" in self.broken:
            is_waiting = any(piece.is_routed and piece.holds(row) for piece in ledger.pieces)
            if row.topic in ledger.topics:
                return settled == len(ledger.batches) and ledger.lower.sees(row.xid) and not is_waiting
            newest = ledger.batches[-1] if ledger.batches else None
            return newest is not None and row.topic in newest.topics and (newest.upper or NOTHING_SEEN).sees(row.xid)
        return len(numbers) + ledger.has_given_up(row) == 1

    def settled_batches(self, ledger: Ledger) -> int:
        """With one hop and the policy `received`, what is received is settled."""
        is_last = self.bounds.hops == 1 and not self.bounds.processed
        return ledger.received if is_last else ledger.settled

    def batches_of(self, rows: tuple[Row, ...], ledger: Ledger, row: Row) -> list[int]:
        """The numbers of the batches that hold a row: one, or the law of conservation is broken."""
        return [number for number, batch in enumerate(ledger.batches, 1) if row in self.members_of_batch(rows, batch)]

    @staticmethod
    def needs_repair(state: State) -> bool:
        """Either store of hop 1 went back in time."""
        shop, hub = state.servers[SHOP], state.servers[HUB]
        return shop.timeline != shop.now.ledger.timeline or len(hub.now.log.arrivals) < shop.now.ledger.received

    def reanchor(self, state: State) -> State:
        """A new generation above an anchor in seq; or, when only the destination lost something, its batches are sent again.

        Drivers of the older generation are refused wherever they are: here they are gone.
        """
        server = state.servers[SHOP]
        ledger, log = server.now.ledger, state.servers[HUB].now.log
        state = state._replace(drivers=in_order([IDLE if one.hop == 1 else one for one in state.drivers]))
        lost = ledger.batches[len(log.arrivals) : ledger.received]
        if server.timeline == ledger.timeline and all(batch.adopted is None for batch in lost):
            resend = ledger._replace(received=len(log.arrivals), settled=min(ledger.settled, len(log.arrivals)))
            return commit(state, SHOP, server.now._replace(ledger=resend))
        hub = state.servers[HUB].now  # what an older generation had staged is removed
        receipts = tuple(receipt for receipt in log.receipts if receipt[0] <= len(log.arrivals))
        state = commit(state, HUB, hub._replace(log=log._replace(rows=log.readable, receipts=receipts)))
        repaired = commit(state, SHOP, server.now._replace(ledger=self._new_ledger(state)))
        return with_server(repaired, SHOP, repaired.servers[SHOP]._replace(lost=False))

    def _new_ledger(self, state: State) -> Ledger:
        server, log = state.servers[SHOP], state.servers[HUB].now.log
        ledger, rows = server.now.ledger, server.now.rows
        arrived = dict(log.readable)
        batches: list[Batch] = []
        for number, (plan, last) in enumerate(log.arrivals, 1):
            known = ledger.batches[number - 1] if number <= len(ledger.batches) else None
            if known is not None and known.plan == plan and len(batches) == number - 1:
                batches.append(known)
                continue
            first = batches[-1].last + 1 if batches else 1
            there = {arrived[log_position] for log_position in range(first, last + 1)}
            seqs = tuple(row.seq for row in rows if row.message in there)
            batches.append(Batch(plan, None, None, 0, 0, first, last - first + 1, False, "", seqs))
        anchor = state.next_seq - 1
        frontier = self._snapshot(state)
        delivered = set(arrived.values())
        given_up = [row for row in (*rows, *server.now.dropped) if ledger.has_given_up(row)]
        unrouted = {piece.topics for piece in ledger.pieces if not piece.is_routed and piece.upper is None}
        if "unrouted_forgotten_by_reanchor" in self.broken:
            unrouted = set()
        if "adopted_topic_counts_as_new" not in self.broken:
            unrouted |= {row.topic for row in rows if row.message in delivered}
        unrouted -= {*ledger.topics}
        pieces = [
            Piece(row.topic, NOTHING_SEEN, ALL_SEEN, row.seq - 1, row.seq, row.topic in ledger.topics)
            for row in rows
            if row.message not in delivered and row not in given_up and (row.topic in ledger.topics or row.topic in unrouted)
        ]
        pieces += [
            Piece(row.topic, NOTHING_SEEN, ALL_SEEN, row.seq - 1, row.seq, is_routed=False, is_retired=True) for row in given_up
        ]
        if "unrouted_kept_by_old_snapshots" in self.broken:
            pieces = [piece for piece in pieces if piece.is_routed] + [one for one in ledger.pieces if not one.is_routed]
        else:
            pieces += [Piece(topic, frontier, None, anchor, LAST_SEQ, is_routed=False) for topic in sorted(unrouted)]
        return Ledger(
            tuple(batches), frontier, len(log.arrivals), min(ledger.settled, len(log.arrivals)), server.timeline,
            ledger.topics, tuple(pieces), anchor,
        )  # fmt: skip


def _choices(topics: str) -> Iterator[str]:
    """Every set of topics that a route may have: at least one of them."""
    for count in range(1, len(topics) + 1):
        yield from ("".join(chosen) for chosen in combinations(topics, count))
