"""Changes by hand of ledgers, messages and cursors, and what detects each. `docs/tampering.md` is written from here.

Each is done to a route of two hops with messages everywhere: delivered, on their way, waiting, acknowledged, fetched (`Tampering.world`
says which of the two worlds of tests/integration/test_tampering.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VERIFY, STATUS, HOP = "`verify`", "`status`", "the hop"
"""`relaybox verify` ends with 1; `relaybox status` ends with an error; the next transfer or confirmation stops with one."""


@dataclass(frozen=True)
class Tampering:
    """One change by hand, at one store.

    Attributes:
        what: the change, for the page.
        store: airline is the first store, hub the one in the middle, analytics the last.
        statements: the statements that make it.
        detected_by: what detects it; nothing else does.
        says: a part of the report of `verify`, or, if `verify` does not detect it, of the report of the others.
        why: of a change that nothing detects: why, and what follows from it.
        world: `kept`: everything is kept; `cleaned`: retention has dropped segments and removed ledgers; `reanchored`: the first store
            lost a batch and goes on in a new generation; `backlog`: the rest of a capped pair waits, and a topic was taken from the route.
    """

    what: str
    store: str
    statements: tuple[str, ...]
    detected_by: frozenset[str]
    says: str
    why: str
    world: str


def _detected(
    what: str, store: str, *statements: str, says: str, by: Sequence[str] = (VERIFY,), world: str = "kept"
) -> Tampering:
    return Tampering(what, store, statements, frozenset(by), says, "", world)


def _undetected(what: str, store: str, *statements: str, why: str, world: str = "kept") -> Tampering:
    return Tampering(what, store, statements, frozenset(), "", why, world)


_CONFIRM = (
    "insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by) values "
)
TRANSFER = "transfer all hops"
"""In place of a statement."""

_NEWEST_CURSOR = "version = (select max(version) from relaybox_internal.cursor)"

_MESSAGES = (
    _detected(
        "a waiting message removed",
        "airline",
        "delete from relaybox.outbox where payload = 'waits-2'",
        says="1 rows of outbox segment relaybox_internal.outbox_s000004 were removed and 0 changed",
    ),
    _detected(
        "a waiting message changed",
        "airline",
        "update relaybox.outbox set payload = 'forged' where payload = 'waits-2'",
        says="0 rows of outbox segment relaybox_internal.outbox_s000004 were removed and 1 changed",
    ),
    _undetected(
        "a waiting message removed, and Postgres' counts set to 0",
        "airline",
        "delete from relaybox.outbox where payload = 'waits-2'",
        "select pg_stat_clear_snapshot(), pg_stat_reset()",
        why="no other record of the message exists: it is lost. A crash of the server also sets the counts to 0",
    ),
    _detected(
        "a waiting message given a transaction id of the far future",
        "airline",
        "update relaybox.outbox set xid = '4000000000'::xid8 where payload = 'waits-2'",
        says="the outbox has 1 rows of transactions that have not begun, the first at seq 43 of transaction 4000000000",
    ),
    _detected(
        "a waiting message given an old transaction id",
        "airline",
        "update relaybox.outbox set xid = '4'::xid8 where payload = 'waits-2'",
        says="of 42 committed messages 38 are delivered, 0 planned, 3 wait, 0 are unrouted, 0 given up; 1 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a waiting message moved to a topic without a route",
        "airline",
        "update relaybox.outbox set topic = 'elsewhere' where payload = 'waits-2'",
        says="0 rows of outbox segment relaybox_internal.outbox_s000004 were removed and 1 changed",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a delivered message removed from the outbox",
        "airline",
        "delete from relaybox.outbox where payload = 'm3'",
        says="slice 2 of batch 1 has 4 rows at airline, planned were 5",
    ),
    _detected(
        "a delivered message changed in the outbox",
        "airline",
        "update relaybox.outbox set payload = 'forged' where payload = 'm3'",
        says="changed at 6",
    ),
    _detected(
        "a message added behind the snapshots",
        "airline",
        "insert into relaybox.outbox (xid, topic, sender, payload) "
        "select min(xid::text::bigint)::text::xid8, 'flights', 'UA', 'late' from relaybox.outbox",
        says="1 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a message removed from a log",
        "hub",
        "delete from relaybox_internal.log where log_position = 5",
        says="slice 1 of batch 1 has 4 rows at hub, planned were 5",
    ),
    _detected(
        "a message removed from a log before the next hop has read it",
        "hub",
        "delete from relaybox_internal.log where log_position = 38",
        says="missing at 38",
        by=(VERIFY, HOP),
    ),
    _detected(
        "a message changed in a log",
        "hub",
        "update relaybox_internal.log set payload = 'forged' where log_position = 5",
        says="changed at 5",
    ),
    _detected(
        "a message removed from the last log",
        "analytics",
        "delete from relaybox_internal.log where log_position = 5",
        says="missing at 5",
    ),
    _detected(
        "a message changed in the last log",
        "analytics",
        "update relaybox_internal.log set payload = 'forged' where log_position = 5",
        says="changed at 5",
    ),
    _detected(
        "two messages of a log swapped",
        "hub",
        "update relaybox_internal.log set log_position = 44 where log_position = 5",
        "update relaybox_internal.log set log_position = 5 where log_position = 7",
        "update relaybox_internal.log set log_position = 7 where log_position = 44",
        says="misplaced at 5",
    ),
    _detected(
        "a message added behind the end of a log",
        "hub",
        "insert into relaybox_internal.log select log_id, epoch, 49, index, gen_random_uuid(), sent_at, topic, sender, key, headers, payload, "
        "payload_bytes, clock from relaybox_internal.log where log_position = 5",
        says="unexpected",
    ),
    _detected(
        "a message of a log added again behind its end",
        "hub",
        "insert into relaybox_internal.log select log_id, epoch, 49, index, message_id, sent_at, topic, sender, key, headers, payload, "
        "payload_bytes, clock from relaybox_internal.log where log_position = 5",
        says="doubled",
    ),
)

_SOURCE = (
    _detected(
        "`hop_out.lower` set back",
        "airline",
        "update relaybox_internal.hop_out set lower = '1:1:' where hop = 'flights/1'",
        says="0 are in none of these",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "`hop_out.lower` set back, then a transfer",
        "airline",
        "update relaybox_internal.hop_out set lower = '1:1:' where hop = 'flights/1'",
        TRANSFER,
        says="doubled",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "`hop_out.lower` set forward, over waiting messages",
        "airline",
        "update relaybox_internal.hop_out set lower = pg_current_snapshot() where hop = 'flights/1'",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "`hop_out.lower` set to cover every transaction",
        "airline",
        "update relaybox_internal.hop_out set lower = relaybox_internal.full_snapshot() where hop = 'flights/1'",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`hop_out.anchor_seq` raised over waiting messages",
        "airline",
        "update relaybox_internal.hop_out set anchor_seq = 10000 where hop = 'flights/1'",
        says="hop flights/1 is anchored at seq 10000, the outbox at seq 0",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a topic removed from `hop_out.topics`",
        "airline",
        "update relaybox_internal.hop_out set topics = '{flights}' where hop = 'flights/1'",
        says="at airline the hop reads topics flights, relaybox.yaml says flights, hotels",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a topic added to `hop_out.topics`",
        "airline",
        "update relaybox_internal.hop_out set topics = topics || '{more}' where hop = 'flights/1'",
        says="at airline the hop reads topics flights, hotels, more, relaybox.yaml says flights, hotels",
    ),
    _detected(
        "`hop_out.policy` changed",
        "airline",
        "update relaybox_internal.hop_out set policy = 'received' where hop = 'flights/1'",
        says="at airline the hop has policy received, relaybox.yaml says cascade",
    ),
    _detected(
        "`hop_out.processed_by` changed",
        "hub",
        "update relaybox_internal.hop_out set policy = 'processed', processed_by = '{billing}' where hop = 'flights/2'",
        says="at hub the hop is processed by billing, relaybox.yaml says none",
    ),
    _detected(
        "`hop_out.destination` changed",
        "airline",
        "update relaybox_internal.hop_out set destination = 'elsewhere' where hop = 'flights/1'",
        says="at airline the hop goes to elsewhere, relaybox.yaml says hub",
    ),
    _detected(
        "`hop_out.batch` and `log_position` set back",
        "airline",
        "update relaybox_internal.hop_out h set batch = 4, log_position = 34 where hop = 'flights/1'",
        says="the hop stands at batch 4, position 34; its newest batch is 5 and ends at position 41",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`hop_out.log_position` raised",
        "airline",
        "update relaybox_internal.hop_out set log_position = log_position + 1 where hop = 'flights/1'",
        says="the hop stands at batch 5, position 42; its newest batch is 5 and ends at position 41",
        by=(VERIFY, HOP),
    ),
    _detected(
        "`hop_out.attempt` set back",
        "airline",
        "update relaybox_internal.hop_out set attempt = 0 where hop = 'flights/1'",
        says="the hop is at attempt 0, attempt 5 is on record",
    ),
    _detected(
        "`hop_out.generation` raised",
        "airline",
        "update relaybox_internal.hop_out set generation = 2 where hop = 'flights/1'",
        says="the hop is in generation 2, the newest one on record is 1",
    ),
    _detected(
        "`hop_out.system_identifier` changed",
        "airline",
        "update relaybox_internal.hop_out set system_identifier = 1 where hop = 'flights/1'",
        says="its ledger was written by cluster 1",
        by=(STATUS, HOP),
    ),
    _detected(
        "`hop_out.resend_through` raised",
        "airline",
        "update relaybox_internal.hop_out set resend_through = 99 where hop = 'flights/1'",
        says="batches through 99 may be sent again, received is confirmed through batch 5 only",
    ),
    _detected(
        "`hop_out.compacted_batch` raised",
        "airline",
        "update relaybox_internal.hop_out set compacted_batch = 1, compacted_position = 10 where hop = 'flights/1'",
        says="begins with batch 1 at position 1, expected batch 2 at position 11",
    ),
    _detected(
        "`hop_out.compacted_batch` set back",
        "airline",
        "update relaybox_internal.hop_out set compacted_batch = compacted_batch - 1",
        says="begins with batch 3 at position 21, expected batch 2 at position 21",
        world="cleaned",
    ),
    _detected(
        "a hop marked retired",
        "airline",
        "update relaybox_internal.hop_out set retired_at = now(), retired_by = 'x', retired_reason = 'y' where hop = 'flights/1'",
        says="the hop was retired by x",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "the newest batch removed",
        "airline",
        "delete from relaybox_internal.batch where hop = 'flights/1' and batch = 5",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "a batch in the middle removed",
        "airline",
        "delete from relaybox_internal.batch where hop = 'flights/1' and batch = 2",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a batch's plan id changed",
        "airline",
        "update relaybox_internal.batch set plan_id = gen_random_uuid() where hop = 'flights/1' and batch = 2",
        says="batch 2 is published with plan",
    ),
    _detected(
        "a batch's topics cut",
        "airline",
        "update relaybox_internal.batch set topics = '{flights}' where hop = 'flights/1'",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a batch's snapshots moved",
        "airline",
        "update relaybox_internal.batch set upper = lower where hop = 'flights/1' and batch = 3",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a batch's slices cut",
        "airline",
        "update relaybox_internal.batch set slices = slices - 1 where hop = 'flights/1' and batch = 1",
        says="5 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a batch marked adopted",
        "airline",
        "update relaybox_internal.batch set adopted = true, slices = '[]', digests = null where hop = 'flights/1' and batch = 2",
        says="batch 2 is called adopted; no generation on record adopted it",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "a batch's cluster changed",
        "airline",
        "update relaybox_internal.batch set timeline = 7 where hop = 'flights/1' and batch = 2",
        says="timeline 1, it was planned on cluster",
    ),
    _detected(
        "a batch's generation raised",
        "airline",
        "update relaybox_internal.batch set generation = 3 where hop = 'flights/1' and batch = 2",
        says="batch 2 is of generation 3, the one before it of generation 1, the hop of generation 1",
    ),
    _detected(
        "a batch of a hop that reads a log shifted",
        "hub",
        "update relaybox_internal.batch set reads_after = reads_after - 1 where hop = 'flights/2' and batch = 2",
        says="batch 2 reads after position 9, expected 10",
    ),
)

_CONSERVATION = (
    _detected(
        "the rest of a capped pair removed",
        "airline",
        "delete from relaybox_internal.backlog where state = 'routed'",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "the rest of a capped pair cut",
        "airline",
        "update relaybox_internal.backlog set seqs = seqs - int8multirange(int8range(60, 64)) where state = 'routed'",
        says="4 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "the rest of a capped pair extended over read messages",
        "airline",
        "update relaybox_internal.backlog set seqs = seqs + int8multirange(int8range(44, 47)) where state = 'routed'",
        says="0 are in none of these, 2 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "the rest of a capped pair duplicated",
        "airline",
        "insert into relaybox_internal.backlog (hop, topics, lower, upper, seqs) "
        "select hop, topics, lower, upper, seqs from relaybox_internal.backlog where state = 'routed'",
        says="0 are in none of these, 20 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "a piece's topics changed",
        "airline",
        "update relaybox_internal.backlog set topics = '{hotels}' where state = 'routed'",
        says="20 are in none of these",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "a piece's lower snapshot raised",
        "airline",
        "update relaybox_internal.backlog set lower = upper where state = 'routed'",
        says="20 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "a piece's lower snapshot set back, its seqs widened",
        "airline",
        "update relaybox_internal.backlog set lower = '1:1:', seqs = int8multirange(int8range(1, 1000)) where state = 'routed'",
        says="in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "a piece's upper snapshot set back",
        "airline",
        "update relaybox_internal.backlog set upper = lower where state = 'routed'",
        says="20 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "an unrouted piece removed",
        "airline",
        "delete from relaybox_internal.backlog where state = 'unrouted'",
        says="are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "an unrouted piece cut before its newest messages",
        "airline",
        "update relaybox_internal.backlog set upper = lower where state = 'unrouted' and upper is null",
        says="3 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="backlog",
    ),
    _detected(
        "an unrouted piece marked routed",
        "airline",
        "update relaybox_internal.backlog set state = 'routed' where state = 'unrouted' and upper is not null",
        says="is routed and has topics hotels; the hop moves topics flights",
        world="backlog",
    ),
    _detected(
        "a routed piece marked unrouted",
        "airline",
        "update relaybox_internal.backlog set state = 'unrouted' where state = 'routed'",
        says="is unrouted and has topics flights; the hop moves topics flights",
        world="backlog",
    ),
    _undetected(
        "an unrouted piece marked retired",
        "airline",
        (
            "update relaybox_internal.backlog set state = 'retired', retired_by = 'x', retired_reason = 'y' where state = 'unrouted' "
            "and upper is not null"
        ),
        why="the row says who retired it and why, as after `relaybox retire`. Retention may drop the messages",
        world="backlog",
    ),
    _detected(
        "a batch added that reads messages again",
        "airline",
        "insert into relaybox_internal.batch (hop, batch, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through, "
        "first_position, last_position, row_count, slices, system_identifier, timeline, next_xid) "
        "select hop, 6, topics, lower, upper, pair_last_seq, pair_exhausted, reads_after, reads_through, 42, 41 + row_count, row_count, "
        "slices, system_identifier, timeline, next_xid from relaybox_internal.batch where hop = 'flights/1' and batch = 4",
        says="0 are in none of these, 4 in two",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "the messages that a generation found delivered removed",
        "airline",
        "update relaybox_internal.generation set adopted_seqs = '{}'",
        says="6 are in none of these, 0 in two",
        by=(VERIFY, STATUS),
        world="reanchored",
    ),
    _detected(
        "the messages that a generation found delivered extended",
        "airline",
        "update relaybox_internal.generation set adopted_seqs = adopted_seqs + int8multirange(int8range(1, 4))",
        says="0 are in none of these, 3 in two",
        by=(VERIFY, STATUS),
        world="reanchored",
    ),
)
"""Of the law of conservation (G12), with what breaks it in the other sections."""

_GENERATIONS = (
    _detected(
        "the record of a generation removed",
        "airline",
        "delete from relaybox_internal.ghost",
        "delete from relaybox_internal.generation",
        says="6 are in none of these, 0 in two",
        world="reanchored",
        by=(VERIFY, STATUS),
    ),
    _detected(
        "the adopted messages of a generation cut",
        "airline",
        "update relaybox_internal.generation set adopted_through = adopted_from - 1",
        says="batch 5 is called adopted; no generation on record adopted it",
        world="reanchored",
    ),
    _detected(
        "a ghost removed",
        "airline",
        "delete from relaybox_internal.ghost",
        says="generation 2 found 1 ghosts, 0 are listed",
        world="reanchored",
    ),
    _detected(
        "a ghost added",
        "airline",
        'insert into relaybox_internal.ghost select hop, "log_position" + 1, generation, gen_random_uuid(), sender, topic, sent_at from relaybox_internal.ghost',
        says="generation 2 found 1 ghosts, 2 are listed",
        world="reanchored",
    ),
    _undetected(
        "an attestation removed",
        "airline",
        "delete from relaybox_internal.attestation",
        why="the record is for people only; the ledgers have the change that it made",
        world="reanchored",
    ),
)

_CONFIRMATIONS = (
    _detected(
        "`received` raised beyond the batch",
        "airline",
        (
            "update relaybox_internal.confirmation set through_position = through_position + 100 where hop = 'flights/1' "
            "and state = 'received'"
        ),
        says="hub ends at batch 5, position 41: 100 messages are confirmed and not there",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`received` raised to a batch that does not exist",
        "airline",
        f"{_CONFIRM} ('flights/1', 'received', 1000, 99, now(), 'x')",
        says="hub ends at batch 5, position 41: 959 messages are confirmed and not there",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`received` of the newest batches removed",
        "airline",
        "delete from relaybox_internal.confirmation where hop = 'flights/1' and state = 'received' and through_batch > 1",
        says="batch 5 is planned, received is confirmed through batch 1 only",
    ),
    _detected(
        "`settled` raised beyond `received`",
        "hub",
        f"{_CONFIRM} ('flights/2', 'settled', 1000, 99, now(), 'x')",
        says="settled through position 1000, received only through position 34",
    ),
    _detected(
        "`processed` raised beyond `received`",
        "hub",
        f"{_CONFIRM} ('flights/2', 'processed', 1000, 99, now(), 'x')",
        says="processed through position 1000, received only through position 34",
    ),
    _undetected(
        "`settled` raised to `received`",
        "airline",
        f"{_CONFIRM} ('flights/1', 'settled', 41, 5, now(), 'x')",
        why="with policy `received` it would be right, and no record says which policy the batch had. "
        "The next store has the messages; this store may drop them earlier",
    ),
    _undetected(
        "`settled` removed",
        "airline",
        "delete from relaybox_internal.confirmation where state = 'settled'",
        why="the next confirmation writes it again",
    ),
    _detected(
        "the origin's copy of a later hop's confirmation raised",
        "airline",
        f"{_CONFIRM} ('flights/2', 'received', 1000, 99, now(), 'x')",
        says="as airline knows from hub, where it is received through position 34",
    ),
)

_DESTINATION = (
    _detected(
        "the newest arrival of the last store rolled back",
        "analytics",
        "delete from relaybox_internal.arrival where batch = 4",
        "update relaybox_internal.hop_in i set published_batch = 3, published_position = 30",
        says="analytics ends at batch 3, position 30: 4 messages are confirmed and not there",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "the newest arrival of the last store rolled back, with its messages and receipts",
        "analytics",
        "delete from relaybox_internal.arrival where batch = 4",
        "update relaybox_internal.hop_in i set published_batch = 3, published_position = 30",
        "delete from relaybox_internal.log where log_position > 30",
        "delete from relaybox_internal.receipt where batch > 3",
        says="missing at 34",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "an arrival removed",
        "hub",
        "delete from relaybox_internal.arrival where batch = 2",
        says="batch 1 is followed by batch 3",
    ),
    _detected(
        "an arrival's plan id changed",
        "hub",
        "update relaybox_internal.arrival set plan_id = gen_random_uuid() where batch = 2",
        says="batch 2 is published with plan",
    ),
    _detected(
        "an arrival's positions changed",
        "hub",
        "update relaybox_internal.arrival set first_position = 12, row_count = row_count - 1 where batch = 2",
        says="batch 2 is published at positions 12 to 20, planned were 11 to 20",
    ),
    _detected(
        "an arrival's cluster changed",
        "hub",
        "update relaybox_internal.arrival set source_timeline = 7 where batch = 2",
        says="timeline 7, it was planned on cluster",
    ),
    _detected(
        "a receipt removed",
        "hub",
        "delete from relaybox_internal.receipt where batch = 1 and slice = 1",
        says="batch 1 is published with 1 receipt of 2 slices",
    ),
    _detected(
        "a receipt's row count changed",
        "hub",
        "update relaybox_internal.receipt set row_count = row_count - 1 where batch = 1 and slice = 1",
        says="batch 1 is published with receipts for 9 rows at positions 1 to 10",
    ),
    _detected(
        "`hop_in.published_position` raised",
        "hub",
        "update relaybox_internal.hop_in set published_position = published_position + 1",
        says="published is batch 5 through position 42; the newest arrival is batch 5 and ends at position 41",
        by=(VERIFY, HOP),
    ),
    _detected(
        "`hop_in.published_position` set back",
        "hub",
        "update relaybox_internal.hop_in set published_position = published_position - 1",
        says="hub ends at batch 5, position 40: 1 message is confirmed and not there",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`hop_in.generation` raised",
        "hub",
        "update relaybox_internal.hop_in set generation = 5",
        says="hub is in generation 5 of the hop, airline in generation 1",
        by=(VERIFY, STATUS, HOP),
    ),
    _detected(
        "`hop_in.source` changed",
        "hub",
        "update relaybox_internal.hop_in set source = 'elsewhere'",
        says="at hub the hop comes from elsewhere, relaybox.yaml says airline",
    ),
    _detected(
        "`hop_in.compacted_batch` raised",
        "hub",
        "update relaybox_internal.hop_in set compacted_batch = 1, compacted_position = 10",
        says="begins with batch 1 at position 1, expected batch 2 at position 11",
    ),
    _detected(
        "`hop_in.compacted_position` set back",
        "hub",
        "update relaybox_internal.hop_in set compacted_position = compacted_position - 1",
        says="expected batch 2 at position 10",
        world="cleaned",
    ),
)

_STREAMS = (
    _detected(
        "a decision removed",
        "analytics",
        "delete from relaybox_internal.decision where batch = 2",
        says="batch 2 of flights/2 has no decision; decided is through batch 4",
    ),
    _detected(
        "the newest decision removed",
        "analytics",
        "delete from relaybox_internal.decision where batch = 4",
        says="batch 4 of flights/2 has no decision; decided is through batch 4",
    ),
    _detected(
        "a decision's row count changed",
        "analytics",
        "update relaybox_internal.decision set row_count = row_count + 1 where batch = 1",
        says="batch 1 of flights/2: decided on 11 rows, 10 have arrived",
    ),
    _detected(
        "a decision's duplicate added",
        "analytics",
        "update relaybox_internal.decision set duplicates = '{3}', duplicate_count = 1 where batch = 1",
        says="position 3 of flights/2: duplicate, stream position 3",
    ),
    _detected(
        "`stream_log.decided_batch` raised",
        "hub",
        "update relaybox_internal.stream_log set decided_batch = decided_batch + 1, decided_position = decided_position + 3",
        says="flights/1 is decided through batch 6, published is batch 5",
    ),
    _detected(
        "`stream_log.decided_batch` set back",
        "hub",
        "update relaybox_internal.stream_log set decided_batch = decided_batch - 1",
        says="flights/1 is decided through position 41, batch 4 ends at 34",
        by=(VERIFY, HOP),
    ),
    _detected(
        "`stream.arrival_seq` raised",
        "hub",
        "update relaybox_internal.stream set arrival_seq = arrival_seq + 1",
        says="batch 5 of flights/1 takes numbers 35 to 41, the next decision begins at 43",
    ),
    _detected(
        "`stream.last_stream_position` raised",
        "hub",
        "update relaybox_internal.stream set last_stream_position = last_stream_position + 1",
        says="40 stream positions are filled, decisions delivered 39",
    ),
    _detected(
        "`stream.last_stream_position` set back",
        "hub",
        "update relaybox_internal.stream set last_stream_position = last_stream_position - 1",
        says="38 stream positions are filled, decisions delivered 39",
    ),
    _detected(
        "`stream.first_kept_stream_position` raised",
        "hub",
        "update relaybox_internal.stream set first_kept_stream_position = first_kept_stream_position + 3",
        says="is kept: it begins at 20",
        world="cleaned",
    ),
    _detected(
        "a run of stream positions removed",
        "analytics",
        (
            "delete from relaybox_internal.delivery where first_stream_position = (select max(first_stream_position) "
            "from relaybox_internal.delivery)"
        ),
        says="stream_positions_not_dense",
    ),
    _detected(
        "a run of stream positions shifted",
        "analytics",
        "update relaybox_internal.delivery set first_position = first_position + 1, log_positions = null "
        "where first_stream_position = (select max(first_stream_position) from relaybox_internal.delivery)",
        says="position_lost: position 23 of flights/2 has no stream position and no reason for it",
    ),
    _detected(
        "a held message removed",
        "hub",
        "delete from relaybox_internal.held",
        says="position_lost: position 22 of flights/1 has no stream position and no reason for it",
    ),
    _detected(
        "a dead letter of a stream removed",
        "hub",
        "delete from relaybox_internal.dead_letter",
        says="position_lost: position 21 of flights/1 has no stream position and no reason for it",
    ),
    _detected(
        "a sender's watermark raised",
        "hub",
        "update relaybox_internal.sender_state set watermark = watermark + 100 where sender = 'N'",
        says="sender N, epoch 1 is done through index 104; index 6 is the highest that has come",
    ),
    _detected(
        "a sender's watermark set back",
        "hub",
        "update relaybox_internal.sender_state set watermark = watermark - 1 where sender = 'N'",
        says="sender N, epoch 1 is done through index 3; index 4 was decided on, and neither waits nor was set aside",
    ),
    _undetected(
        "a sender's declaration removed where it sends",
        "airline",
        "delete from relaybox_internal.sender where sender = 'N'",
        why="the stores that it has reached keep it. A store that is added later does not get it: declare the sender again",
    ),
    _detected(
        "a topic of a stream removed",
        "analytics",
        "delete from relaybox_internal.stream_topic where topic = 'hotels'",
        says="at analytics the hop has a stream with topics flights, relaybox.yaml says flights, hotels",
    ),
)

_CONSUMERS = (
    _detected(
        "a cursor moved over messages",
        "analytics",
        f"update relaybox_internal.cursor set done_stream_position = 15, fetched_stream_position = 15 where {_NEWEST_CURSOR}",
        says="subscription billing, lane 1 went to stream position 15, fetched were stream positions through 10",
    ),
    _detected(
        "a cursor moved over messages by a new version",
        "analytics",
        "insert into relaybox_internal.cursor (subscription_id, lane, version, done_stream_position, fetched_stream_position) "
        "select subscription_id, lane, max(version) + 1, 20, 20 from relaybox_internal.cursor group by 1, 2",
        says="subscription billing, lane 1 went to stream position 20, fetched were stream positions through 15",
    ),
    _detected(
        "a cursor moved beyond the stream",
        "analytics",
        f"update relaybox_internal.cursor set done_stream_position = 1000, fetched_stream_position = 1000 where {_NEWEST_CURSOR}",
        says="subscription billing, lane 1 is done through stream position 1000, the stream ends at stream position",
    ),
    _detected(
        "a version of a cursor removed",
        "analytics",
        "delete from relaybox_internal.cursor where version = 3",
        says="subscription billing, lane 1: version 4 follows version 2",
    ),
    _undetected(
        "a cursor moved over fetched messages",
        "analytics",
        f"update relaybox_internal.cursor set fetched_stream_position = done_stream_position where {_NEWEST_CURSOR}",
        why="an acknowledgement looks the same. The messages that the worker had fetched are not worked on; no other message is affected",
    ),
    _undetected(
        "the newest version of a cursor removed",
        "analytics",
        f"delete from relaybox_internal.cursor where {_NEWEST_CURSOR}",
        why="the cursor was there one step before. The fetched messages come again",
    ),
    _undetected(
        "all versions of a cursor except the newest removed, and the newest moved",
        "analytics",
        f"delete from relaybox_internal.cursor where not {_NEWEST_CURSOR}",
        "update relaybox_internal.cursor set done_stream_position = 20, fetched_stream_position = 20",
        why="a lane keeps its newest 1 to 100 steps. Each step is compared with the step before it",
    ),
    _detected(
        "a subscription ended",
        "analytics",
        "update relaybox_internal.subscription set ended_at = now()",
        says="and 1 of its lanes are here",
    ),
    _detected(
        "the topic of a subscription changed",
        "analytics",
        "update relaybox_internal.subscription set topic = 'hotels'",
        says="subscription billing reads topic hotels; it subscribed to flights",
    ),
)

_SEGMENTS = (
    _detected(
        "the first segment of the outbox dropped by hand",
        "airline",
        "drop table relaybox_internal.outbox_s000000",
        "update relaybox_internal.store set first_kept_seq = 10",
        says="the outbox begins at seq 10; that seqs {[1,10)} were dropped is not on record",
    ),
    _detected(
        "a segment of the outbox detached by hand",
        "airline",
        "alter table relaybox.outbox detach partition relaybox_internal.outbox_s000003",
        says="the outbox begins at seq 1, its newest segment ends at seq 89; no segment has seqs {[30,40)}",
    ),
    _detected(
        "`store.first_kept_seq` raised",
        "airline",
        "update relaybox_internal.store set first_kept_seq = 10",
        says="the outbox begins at seq 10; that seqs {[1,10)} were dropped is not on record",
    ),
    _detected(
        "`store.first_kept_seq` set back",
        "airline",
        "update relaybox_internal.store set first_kept_seq = 1",
        says="no segment has seqs {[1,",
        world="cleaned",
    ),
    _detected(
        "the record of dropped segments of the outbox removed",
        "airline",
        "delete from relaybox_internal.dropped_segment",
        says="were dropped is not on record",
        world="cleaned",
    ),
    _detected(
        "the first segment of a log dropped by hand",
        "hub",
        "drop table relaybox_internal.log_1_s000000",
        "update relaybox_internal.hop_in set first_kept_position = 10",
        says="the log begins at position 10; that positions {[1,10)} were dropped or detached is not on record",
    ),
    _detected(
        "a segment of a log detached by hand",
        "hub",
        "alter table relaybox_internal.log_1 detach partition relaybox_internal.log_1_s000001",
        says="the log begins at position 1 and is published through position 41; no segment has positions {[10,20)}",
    ),
    _detected(
        "`hop_in.first_kept_position` raised",
        "hub",
        "update relaybox_internal.hop_in set first_kept_position = 10",
        says="the log begins at position 10; that positions {[1,10)} were dropped or detached is not on record",
    ),
    _detected(
        "the record of dropped segments of a log removed",
        "hub",
        "delete from relaybox_internal.dropped_segment",
        says="were dropped or detached is not on record",
        world="cleaned",
    ),
)

SECTIONS: dict[str, tuple[Tampering, ...]] = {
    "Messages": _MESSAGES,
    "The source's ledger: relaybox_internal.hop_out, relaybox_internal.batch": _SOURCE,
    "The backlog: relaybox_internal.backlog, and the law of conservation (G12)": _CONSERVATION,
    "Generations": _GENERATIONS,
    "Confirmations": _CONFIRMATIONS,
    "The destination's ledger: relaybox_internal.hop_in, relaybox_internal.arrival, relaybox_internal.receipt": _DESTINATION,
    "Streams": _STREAMS,
    "Consumers": _CONSUMERS,
    "Segments and the records of retention": _SEGMENTS,
}


def tables() -> str:
    """The tables of docs/tampering.md."""
    return "\n\n".join(f"## {title}\n\n{_table(kinds)}" for title, kinds in SECTIONS.items()) + "\n"


def _table(kinds: Sequence[Tampering]) -> str:
    rows = ["| change | store | detected by | report, or why it is not detected |", "|---|---|---|---|"]
    for kind in kinds:
        detected = ", ".join(one for one in (VERIFY, STATUS, HOP) if one in kind.detected_by) or "**nothing**"
        rows.append(f"| {kind.what} | {kind.store} | {detected} | {f'... {kind.says} ...' if kind.says else kind.why} |")
    return "\n".join(rows)
