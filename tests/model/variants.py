"""Broken protocols: each with a rule switched off, the bounds in which that shows, and the guarantee that it costs.

Where a variant needs two switches, two rules guard the same thing. REDUNDANT names the rules whose loss another one makes good.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.model.rules import Bounds
from tests.model.state import HUB, SHOP

CALM = Bounds(hops=1, crashes=0)
PASSED = Bounds(hops=1, drivers=1, crashes=0, passes=True)
ONE_MESSAGE = Bounds(hops=1, messages=(0, 1), crashes=0)
SHOP_CRASHES = Bounds(hops=1, crashes=1, fragile=(SHOP,))
HUB_CRASHES = Bounds(hops=1, crashes=1, fragile=(HUB,))
SHOP_FAILS_OVER = Bounds(hops=1, crashes=0, failovers=1, fragile=(SHOP,))
TOPICS_CHANGE = Bounds(hops=1, crashes=0, drivers=1, topics="ab", sends=("a", "b"), changes=1)
TOPIC_ADDED = Bounds(hops=1, crashes=0, drivers=1, topics="a", sends=("a", "b"), changes=1)
ONE_CHANGES_TWICE = Bounds(hops=1, messages=(0, 1), crashes=0, drivers=1, topics="ab", sends=("a", "b"), changes=2)
RETIRED = replace(ONE_CHANGES_TWICE, topics="a", retires=True)
RESTORED = Bounds(
    hops=1, messages=(0, 1), crashes=0, drivers=1, failovers=1, fragile=(SHOP,), topics="ab", sends=("a", "b"), changes=1
)


@dataclass(frozen=True)
class Variant:
    """What is broken, in words; the switches; the guarantee that must be found broken; where it shows."""

    what: str
    guarantee: str
    bounds: Bounds = CALM
    switches: frozenset[str] = field(default_factory=frozenset)


def _variant(what: str, guarantee: str, bounds: Bounds, *switches: str) -> Variant:
    return Variant(what, guarantee, bounds, frozenset(switches))


VARIANTS = {
    "ledger_async": _variant(
        "the batch row is committed with synchronous_commit off", "G1", SHOP_CRASHES, "ledger_async"
    ),
    "read_before_ledger_commit": _variant(
        "rows are read and copied before the plan's COMMIT was answered", "liveness", SHOP_CRASHES, "read_before_ledger_commit"
    ),
    "snapshot_before_lock": _variant(
        "the snapshot is as old as the statement that waited for the lock", "G3", ONE_MESSAGE, "snapshot_before_lock"
    ),
    "snapshot_in_writing_transaction": _variant(
        "the snapshot is taken in a transaction that wrote: its own number counts as visible", "G2", CALM,
        "snapshot_in_writing_transaction",
    ),
    "snapshot_on_standby": _variant("a standby's snapshot knows no open transaction", "G2", CALM, "snapshot_on_standby"),
    "capped_by_made_up_snapshot": _variant(
        "a batch is capped by a made-up upper snapshot X:X:, not along seq", "G5", CALM, "capped_by_made_up_snapshot",
    ),
    "id_watermark": _variant("a batch is what has a higher seq than the last one", "G2", CALM, "id_watermark"),
    "range_forgets_open": _variant(
        "the range above lower's xmax is read, the transactions that lower saw open are not", "G2", CALM, "range_forgets_open"
    ),
    "idle_look_before_snapshot": _variant(
        "an idle hop is moved on to a snapshot that is later than the look", "G2", PASSED, "idle_look_before_snapshot"
    ),
    "idle_cut_forgets_open": _variant(
        "an idle hop is moved on to a snapshot that was cut and forgets what was open", "G2", PASSED, "idle_cut_forgets_open"
    ),
    "idle_moved_beyond_the_look": _variant(
        "an idle hop is moved on to all of a snapshot, of which a part was looked at", "G2", PASSED, "idle_moved_beyond_the_look"
    ),
    "order_by_xid": _variant(
        "rows are ordered by transaction number", "G5", Bounds(hops=1, crashes=0, batch_rows=2), "order_by_xid"
    ),
    "lower_from_memory": _variant(
        "a driver takes the lower snapshot from its own memory, not from the ledger", "G3", CALM, "lower_from_memory",
    ),
    "replan_instead_of_resume": _variant(
        "a batch that has not arrived is planned anew under the same number", "liveness", CALM, "replan_instead_of_resume"
    ),
    "replan_and_no_plan_id": _variant(
        "planned anew, and nobody compares plans", "G3", Bounds(hops=1, drivers=1, crashes=0),
        "replan_instead_of_resume", "no_plan_id",
    ),
    "plan_without_waiting": _variant(
        "the next batch is planned while the one before is not confirmed", "G2", CALM, "plan_without_waiting"
    ),
    "no_guard_no_keys": _variant(
        "a slice neither asks whether its batch is open nor collides with another copy", "G3", CALM, "no_guard", "no_keys"
    ),
    "plain_guard_no_keys": _variant(
        "a slice asks with a plain select, and nothing collides", "G3", CALM, "plain_guard", "no_keys"
    ),
    "no_keys": _variant("two copies of a slice may both commit", "liveness", CALM, "no_keys"),
    "publish_without_receipts": _variant(
        "publish counts neither receipts nor rows", "G4", CALM, "publish_without_receipts"
    ),
    "receipts_not_counted": _variant(
        "publish believes its driver that the slices are copied", "G4", HUB_CRASHES, "receipts_not_counted"
    ),
    "positions_from_sequence": _variant(
        "positions are drawn from a sequence by each copy", "G4", CALM, "positions_from_sequence"
    ),
    "publish_async": _variant("the arrival is committed with synchronous_commit off", "G7", HUB_CRASHES, "publish_async"),
    "confirm_before_publish": _variant(
        "received is recorded when the slices are copied", "G7", CALM, "confirm_before_publish"
    ),
    "settled_on_received": _variant(
        "the first hop is settled by its own confirmation, though the policy is cascade", "G7",
        Bounds(messages=(1, 0), crashes=0, drivers=1), "settled_on_received",
    ),
    "settled_before_processed": _variant(
        "the last hop is settled when it is received, though the policy is processed", "G7",
        Bounds(hops=1, messages=(0, 1), crashes=0, drivers=1, processed=True), "settled_before_processed",
    ),
    "acknowledgement_not_flushed": _variant(
        "a hop settles by an acknowledgement that a crash may take back", "G7",
        Bounds(hops=1, messages=(0, 1), crashes=0, drivers=1, processed=True), "acknowledgement_not_flushed",
    ),
    "staged_rows_read": _variant(
        "the second hop reads rows of the first one's log before they are published", "G1",
        Bounds(messages=(1, 0), crashes=1, drivers=2), "staged_rows_read",
    ),
    "no_fingerprint": _variant(
        "the timeline of the source is not compared", "G11", SHOP_FAILS_OVER, "no_fingerprint"
    ),
    "stale_answer_believed": _variant(
        "an old answer of the destination is taken for lost history", "G11",
        Bounds(hops=1, messages=(1, 0), crashes=0), "stale_answer_believed",
    ),
    "rest_forgotten": _variant("what a capped batch left of its pair is not kept", "G12", CALM, "rest_forgotten"),
    "capped_rest_taken_for_moved": _variant(
        "retention takes what the newest batch's upper sees for moved, also the rest of a capped pair", "G8",
        replace(TOPICS_CHANGE, retention=True), "frontier_counts_as_moved",
    ),
    "unrouted_topics_hold_nothing": _variant(
        "retention asks for the rows of the route's topics only", "G8", replace(ONE_CHANGES_TWICE, changes=1, retention=True),
        "unrouted_topics_hold_nothing",
    ),
    "rest_without_rows_never_closed": _variant(
        "a rest is read with the topics of today; one without such rows stays, and everything behind it waits", "G2",
        replace(TOPICS_CHANGE, messages=(2, 1)), "topics_of_the_hop", "empty_piece_stays",
    ),
    "rest_read_with_todays_topics": _variant(
        "a rest is read with the topics of today, and then it is gone", "G12", TOPICS_CHANGE, "topics_of_the_hop"
    ),
    "every_transaction_becomes_the_frontier": _variant(
        "the pair of every transaction, when it turns out to be empty, is written down as how far the hop has looked", "G2",
        replace(RESTORED, topics="a", messages=(1, 1)), "empty_piece_becomes_frontier",
    ),
    "added_topic_not_caught_up": _variant(
        "what the store keeps of an added topic counts as read", "G12", replace(TOPIC_ADDED, messages=(1, 1)),
        "added_topic_not_caught_up",
    ),
    "added_topic_makes_kept_rows_droppable": _variant(
        "what the store keeps of an added topic counts as read, and retention believes that", "G8",
        replace(TOPIC_ADDED, retention=True), "added_topic_not_caught_up", "frontier_counts_as_moved",
    ),
    "removed_topic_not_kept": _variant(
        "nothing is written down of a topic that is taken from a route", "G3", ONE_CHANGES_TWICE, "removed_topic_not_kept"
    ),
    "rest_of_removed_topic_dropped": _variant(
        "what a rest holds of a removed topic goes with it", "G12", TOPICS_CHANGE, "rest_of_removed_topic_dropped"
    ),
    "kept_from_now_on": _variant(
        "a removed topic is kept from the present snapshot on, not from the frontier", "G12",
        replace(ONE_CHANGES_TWICE, changes=1), "kept_from_now_on",
    ),
    "returned_topic_read_until_now": _variant(
        "a topic that comes back is caught up through the present snapshot, not through the frontier", "G12",
        ONE_CHANGES_TWICE, "returned_topic_read_until_now",
    ),
    "rest_behind_what_came_later": _variant(
        "what a rest holds of a removed topic goes behind what comes of it later", "G5",
        replace(ONE_CHANGES_TWICE, messages=(0, 3)), "rest_behind_what_came_later",
    ),
    "retired_with_open_transactions": _variant(
        "what was open when a topic was retired, and what begins later, is given up when it commits", "G12", RETIRED,
        "retired_with_open_transactions",
    ),
    "retired_beyond_the_frontier": _variant(
        "a topic is retired up to now, and the frontier stays behind: when it comes back, what was given up is read", "G12", RETIRED,
        "retired_beyond_the_frontier",
    ),
    "unrouted_forgotten_by_reanchor": _variant(
        "a new generation knows neither what was kept for a removed topic nor what of it was delivered", "G3",
        replace(RESTORED, changes=2), "unrouted_forgotten_by_reanchor", "adopted_topic_counts_as_new",
    ),
    "unrouted_kept_by_old_snapshots": _variant(
        "a new generation keeps removed topics by the snapshots of the history that is gone", "G12", RESTORED,
        "unrouted_kept_by_old_snapshots",
    ),
    "added_topic_read_by_snapshots_only": _variant(
        "rows of another history are looked for by snapshots of this one when a topic is added", "G12",
        replace(RESTORED, topics="a", reloads=True), "added_topic_read_by_snapshots_only",
    ),
    "adopted_topic_counts_as_new": _variant(
        "what a new generation adopted of a topic is read again when the topic is added", "G3",
        replace(RESTORED, topics="a", messages=(1, 0), sends=("b", "a"), changes=2), "adopted_topic_counts_as_new",
    ),
}  # fmt: skip

REDUNDANT = {
    "no_guard": "a slice does not ask whether its batch is open: it collides with the receipt of the copy that was published",
    "plain_guard": "a slice asks with a plain select: the same",
    "no_plan_id": "plans are not compared: as long as unfinished batches are resumed, there is one plan for each number",
}
