"""Named moments of the protocol at which a test may inject a fault. Off unless RELAYBOX_FAILPOINTS names them.

`RELAYBOX_FAILPOINTS="slice.copied:2=kill, publish.checked=pause, confirm.begin=raise 40001"`: at the second copied slice
of this process it is killed, and so on. Accepted only with RELAYBOX_ENVIRONMENT=test, so that no fault is injected in production.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

FAILPOINTS: Mapping[str, str] = {
    "generation.begun": "destination: a new generation begun, older staged rows removed",
    "generation.committing": "destination: COMMIT of the new generation not sent yet",
    "generation.committed": "destination: new generation durable",
    "reanchor.recorded": "source: new generation, or what to send again, written",
    "reanchor.committing": "source: COMMIT of the reanchoring not sent yet",
    "reanchor.committed": "source: new generation durable, destination not told yet",
    "attest.recorded": "source: new fingerprint written",
    "attest.committing": "source: COMMIT of the attestation not sent yet",
    "attest.committed": "source: new fingerprint durable",
    "outbox_segments.made": "source: segments of the outbox made, not committed",
    "outbox_segments.committing": "source: COMMIT of outbox segments not sent yet",
    "outbox_segments.committed": "source: outbox segments committed",
    "outbox_seal.sealed": "source: full segments of the outbox sealed, not committed",
    "outbox_seal.committing": "source: COMMIT of sealed segments not sent yet",
    "outbox_seal.committed": "source: sealed segments committed",
    "destination_met.recorded": "source: id of the destination written, the first time the hop meets it",
    "destination_met.committing": "source: COMMIT of that id not sent yet",
    "destination_met.committed": "source: id of the destination durable, the destination has not recorded the source yet",
    "source_met.recorded": "destination: id of the source written, the first time the hop meets it",
    "source_met.committing": "destination: COMMIT of that id not sent yet",
    "source_met.committed": "destination: id of the source durable",
    "plan.begin": "source: connected, the hop not locked yet",
    "plan.locked": "source: hop locked, fingerprint checked, no snapshot taken yet",
    "plan.counted": "source: snapshot taken, rows counted, nothing written",
    "plan.recorded": "source: batch row written",
    "plan.committing": "source: plan and attempt written, COMMIT not sent yet",
    "plan.committed": "source: plan durable, nothing read yet",
    "idle_hops.begin": "source: idle hops not looked at yet",
    "idle_hops.committed": "source: snapshots of idle hops moved on, or none",
    "log_segments.made": "destination: segments of the log made, not committed",
    "log_segments.committing": "destination: COMMIT of log segments not sent yet",
    "log_segments.committed": "destination: log segments committed",
    "slice.begin": "destination: connected, slice still open, source not connected yet",
    "slice.connected": "both: connected, older attempts ended, COPY not begun",
    "slice.piping": "both: the first bytes of the COPY arrived",
    "slice.copied": "destination: all rows there, not counted against the plan",
    "slice.accepted": "destination: guard passed, receipt written",
    "slice.committing": "destination: COMMIT of the slice not sent yet",
    "slice.committed": "destination: slice committed, driver not told yet",
    "publish.begin": "destination: all slices copied, publish not begun",
    "publish.published": "destination: rows counted, arrival written",
    "publish.committing": "destination: COMMIT of the arrival not sent yet",
    "publish.committed": "destination: batch readable, source not told yet",
    "senders.read": "destination: declarations of senders read at the source, not written here",
    "senders.written": "destination: declarations of senders written",
    "senders.committing": "destination: COMMIT of the declarations not sent yet",
    "senders.committed": "destination: declarations durable",
    "deliver.begin": "destination: batch published, nothing decided",
    "deliver.decided": "destination: stream positions filled, duplicates and held messages noted",
    "deliver.committing": "destination: COMMIT of the decision not sent yet",
    "deliver.committed": "destination: decision durable",
    "arrival.read": "destination: newest arrival read by a driver that did not publish it",
    "arrival.committing": "destination: COMMIT that makes sure of that arrival not sent yet",
    "arrival.committed": "destination: that arrival durable, source not told yet",
    "confirm.begin": "source: arrival read, nothing written",
    "confirm.recorded": "source: received written",
    "confirm.committing": "source: COMMIT of received not sent yet",
    "confirm.committed": "source: received durable",
    "downstream.begin": "source: confirmations of later hops read, nothing written",
    "downstream.recorded": "source: confirmations of later hops written",
    "downstream.committing": "source: COMMIT of later hops' confirmations not sent yet",
    "downstream.committed": "source: later hops' confirmations committed",
    "settle.begin": "source: policy evaluated, nothing written",
    "settle.recorded": "source: settled written",
    "settle.committing": "source: COMMIT of settled not sent yet",
    "settle.committed": "source: settled durable",
}
"""What has just happened, and at which store, when a failpoint is reached."""

RETENTION_FAILPOINTS: Mapping[str, str] = {
    "retention.begin": "store: nothing dropped of what comes next",
    "retention.dropped": "store: a segment dropped and committed, the next one not looked at",
    "retention.compacted": "store: ledgers of one hop or derivation compacted and committed, the next one's not",
}
"""The same of retention, which no hop waits for."""

DETACH_FAILPOINTS: Mapping[str, str] = {
    "detach.begun": "store: what is to be in the files written down, no file written",
    "detach.written": "files: all written, not read back",
    "detach.checked": "files: read back and equal, segment still there",
    "detach.detached": "store: segment dropped and committed, files of earlier attempts not removed",
    "attach.begun": "store: table for the rows made, nothing copied",
    "attach.copied": "store: rows copied back, not verified and not visible yet",
    "attach.attached": "store: rows checked and a segment again",
}
"""The same of detaching and attaching, which no hop waits for."""

PAYLOAD_FAILPOINTS: Mapping[str, str] = {
    "payloads.listed": "place: files listed, no store asked",
    "payloads.still": "stores: no segment is dropped from now on, none asked",
    "payloads.asked": "store: open transactions read, references not",
    "payloads.read": "store: its references read, those of the next store not",
    "payload_collection.committing": "store: the collection written, COMMIT not sent yet",
    "payload_collection.committed": "store: that durable, the other stores are still, no file moved",
    "payloads.decided": "stores: all go on, no file moved",
    "payloads.put_back": "place: a file back from the trash, the next one not",
    "payloads.trashed": "place: a file in the trash, the next one not",
    "payloads.removed": "place: a file removed for good, the next one not",
}
"""The same of collecting large payloads, which no hop waits for."""

CONSUMER_FAILPOINTS: Mapping[str, str] = {
    "consume.begin": "store: connected, nothing fetched",
    "consume.fetched": "store: messages fetched and leased, COMMIT not sent yet",
    "consume.leased": "store: that committed, no handler called yet",
    "consume.handled": "store: the handler's work done, not acknowledged",
    "consume.acknowledged": "store: acknowledged and the next fetched, COMMIT not sent yet",
    "consume.committed": "store: work and acknowledgement committed",
    "consume.refused": "store: message refused, COMMIT not sent yet",
}
"""The same of a consumer's loop."""

SINK_FAILPOINTS: Mapping[str, str] = {
    "sink.begin": "store: connected, nothing fetched",
    "sink.leased": "store: messages fetched and leased, nothing sent",
    "sink.delivered": "endpoint: messages confirmed, not acknowledged",
    "sink.acknowledged": "store: these acknowledged, COMMIT not sent yet",
    "sink.committed": "store: that committed",
    "sink.failed": "endpoint: took no message, nothing recorded and no lane given back",
    "sink.recorded": "store: the failure of the endpoint recorded, COMMIT not sent yet",
}
"""The same of a worker that delivers to a webhook or to Kafka. What is refused there is refused as by a consumer."""

PUT_FAILPOINTS: Mapping[str, str] = {
    "put.begin": "store: connected, nothing written",
    "put.committing": "store: the put recorded and its messages inserted, COMMIT not sent yet",
    "put.committed": "store: that committed, Airflow not told yet",
}
"""The same of a task that puts messages."""

FRAME_FAILPOINTS: Mapping[str, str] = {
    "frame.begin": "store: connected, nothing of the partition copied",
    "frame.copied": "store: rows of the partition in a temporary table, nothing recorded",
    "frame.committing": "store: the partition recorded and its messages inserted, COMMIT not sent yet",
    "frame.committed": "store: that committed, Spark not told yet",
}
"""The same of a Spark task that writes a partition into an outbox."""

DERIVE_FAILPOINTS: Mapping[str, str] = {
    "derive_version.committing": "store: the version of a derivation and its subscription written, COMMIT not sent yet",
    "derive_version.committed": "store: that version durable, nothing fetched",
    "derive_attempt.committing": "store: messages fetched and the attempt written, COMMIT not sent yet",
    "derive_attempt.committed": "store: the attempt durable, the function not called yet",
    "derive.begin": "store: derived messages computed as far as the task asked, nothing copied",
    "derive.copied": "store: derived messages in a temporary table, nothing in the outbox",
    "derive.inserted": "store: derived messages in the outbox, nothing acknowledged",
    "derive.committing": "store: attempt published and messages acknowledged, COMMIT not sent yet",
    "derive.committed": "store: that committed, Spark not told yet",
    "derive_failure.committing": "store: failure of the attempt written, COMMIT not sent yet",
    "derive_failure.committed": "store: that failure durable, nobody told yet",
}
"""The same of a derivation, in the order of its steps."""

TRIAL_FAILPOINTS: Mapping[str, str] = {
    "trial.committing": "store: the trial of a next version written, COMMIT not sent yet",
    "trial.committed": "store: the trial durable, no attempt yet",
    "trial_attempt.committing": "store: an attempt of the trial written, COMMIT not sent yet",
    "trial_attempt.committed": "store: that attempt durable, the function not called yet",
    "trial_failure.committing": "store: failure of that attempt written, COMMIT not sent yet",
    "trial_failure.committed": "store: that failure durable, nobody told yet",
    "trial_end.committing": "store: the trial promoted or dropped, COMMIT not sent yet",
    "trial_end.committed": "store: that durable, nobody told yet",
}
"""The same of a trial of a next version; a task of it reaches derive.begin to derive.committed too."""

QUERY_FAILPOINTS: Mapping[str, str] = {
    "query_subscription.committing": "store: subscription of a streaming query written, COMMIT not sent yet",
    "query_subscription.committed": "store: that durable, nothing of the micro-batch read",
    "query_ack.committing": "store: what the query has done acknowledged, COMMIT not sent yet",
    "query_ack.committed": "store: that durable, Spark not told yet",
}
"""The same of a streaming query with a subscription, in the order of its steps."""

LAKE_FAILPOINTS: Mapping[str, str] = {
    "lake_subscription.committing": "store: subscription of the export written, COMMIT not sent yet",
    "lake_subscription.committed": "store: subscription durable, no table yet",
    "lake.created": "lake: empty table with the position of the export",
    "lake.opened": "lake: a file of the batch open, nothing in it (in a Spark task)",
    "lake.written": "lake: files of a Spark task complete, the driver not told",
    "lake.collected": "lake: all files of the batch there, not committed",
    "lake.committed": "lake: the batch committed, not acknowledged",
    "lake_ack.committing": "store: the batch acknowledged, COMMIT not sent yet",
    "lake_ack.committed": "store: that durable, files of dead attempts not removed yet",
    "lake.cleaned": "lake: files of dead attempts removed, the next batch not begun",
}
"""The same of an export into a lake, in the order of its steps."""

PROCESSING_FAILPOINTS: Mapping[str, str] = {
    "processed.read": "destination: what the named subscriptions acknowledged is read",
    "processed.committing": "destination: COMMIT that makes sure of their acknowledgements not sent yet",
    "processed.committed": "destination: their acknowledgements durable, source not told yet",
}
"""The same of confirming, where the route has policy processed."""

TOPIC_FAILPOINTS: Mapping[str, str] = {
    "topics.added": "source: topics that consumers subscribed to further down added to the hop",
    "topics.committing": "source: COMMIT of the topics not sent yet",
    "topics.committed": "source: topics committed",
}
"""The same of every driver, where the route's topics come by subscription."""

INIT_FAILPOINTS: Mapping[str, str] = {
    "init.checked": "all stores checked, nothing changed anywhere",
    "init_hold.committing": "store: streams whose rules change held, COMMIT not sent yet",
    "init_hold.committed": "store: that hold durable, no rules changed anywhere",
    "init.applied": "store: schema, functions and hops up to date, not committed",
    "init.committing": "store: COMMIT of all that not sent yet",
    "init.committed": "store: up to date, the next store as before",
    "payload_trigger.placed": "store: what the outbox checks is as relaybox.yaml says, not committed",
    "payload_trigger.committing": "store: COMMIT of the trigger of the outbox not sent yet",
    "payload_trigger.committed": "store: that durable",
}
"""The same of `relaybox init`, which goes from store to store."""

ADOPT_FAILPOINTS: Mapping[str, str] = {
    "adopt.begin": "store: the table examined, nothing locked",
    "adopt.locked": "store: writers kept out of the table, nothing changed",
    "adopt.committing": "store: trigger made and backlog copied, COMMIT not sent yet",
    "adopt.committed": "store: that durable, nothing of the backlog moved",
    "adopt_batch.committing": "store: messages of the backlog moved into the outbox, COMMIT not sent yet",
    "adopt_batch.committed": "store: that durable, the next ones not moved",
    "adopt_switch.committing": "store: the rest moved and the trigger switched to the outbox, COMMIT not sent yet",
    "adopt_switch.committed": "store: that durable, nobody told yet",
    "send_unmapped.committing": "store: rows that were set aside sent, COMMIT not sent yet",
    "send_unmapped.committed": "store: that durable, nobody told yet",
    "unadopt.begin": "store: the adoption found, nothing locked",
    "unadopt.committing": "store: what waited moved, trigger and functions dropped, COMMIT not sent yet",
    "unadopt.committed": "store: that durable, nobody told yet",
}
"""The same of adopting a table of an application and of ending it, in the order of their steps."""

KNOWN_FAILPOINTS = (
    *FAILPOINTS,
    *CONSUMER_FAILPOINTS,
    *SINK_FAILPOINTS,
    *PUT_FAILPOINTS,
    *FRAME_FAILPOINTS,
    *DERIVE_FAILPOINTS,
    *TRIAL_FAILPOINTS,
    *QUERY_FAILPOINTS,
    *LAKE_FAILPOINTS,
    *PROCESSING_FAILPOINTS,
    *TOPIC_FAILPOINTS,
    *RETENTION_FAILPOINTS,
    *DETACH_FAILPOINTS,
    *PAYLOAD_FAILPOINTS,
    *INIT_FAILPOINTS,
    *ADOPT_FAILPOINTS,
)

_POLL_SECONDS = 0.005


def reach(failpoint: str, session: Connection | None) -> None:
    """Does what RELAYBOX_FAILPOINTS asks for at this moment; nothing when it is not set.

    Args:
        failpoint: one of KNOWN_FAILPOINTS.
        session: the session on which `raise` lets the server raise its error; None where a COPY is running on it.

    Raises:
        ConfigurationError: RELAYBOX_FAILPOINTS is wrong, or set outside a test.
        psycopg2.Error: the error that was asked for, from the server.
    """
    text = os.environ.get("RELAYBOX_FAILPOINTS")
    if text:
        _armed(text).reach(failpoint, session)


@dataclass
class _Armed:
    """The asked-for actions, and how often each failpoint was reached by this process."""

    actions: Mapping[tuple[str, int], str]
    counts: dict[str, Iterator[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, failpoint: str, session: Connection | None) -> None:
        with self.lock:
            hit = next(self.counts.setdefault(failpoint, itertools.count(1)))
        action = self.actions.get((failpoint, hit))
        if action is None:
            return
        directory = Path(os.environ["RELAYBOX_FAILPOINTS_DIRECTORY"])
        _write_hit(directory, failpoint, hit, action)
        if action.startswith("raise "):
            _raise(session, failpoint, action.removeprefix("raise "))
        elif action == "pause":
            _pause(directory / f"{failpoint}.go")
        else:
            _END[action]()


def _write_hit(directory: Path, failpoint: str, hit: int, action: str) -> None:
    """Written before the action, in one write, so that the verification of a hit survives its own kill."""
    line = json.dumps({"failpoint": failpoint, "hit": hit, "action": action, "pid": os.getpid()}) + "\n"
    with (directory / "hits.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)


def _pause(released: Path) -> None:
    while not released.exists():
        time.sleep(_POLL_SECONDS)


def _raise(session: Connection | None, failpoint: str, sqlstate: str) -> None:
    if session is None:
        raise ConfigurationError(f"RELAYBOX_FAILPOINTS: {failpoint} can't raise: a COPY is running there.")
    with session.cursor() as cursor:
        cursor.execute(f"do $$ begin raise exception using errcode = '{sqlstate}', message = 'failpoint {failpoint}'; end $$")


_END: Mapping[str, Callable[[], None]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "exit": lambda: os._exit(1),
}


@functools.cache
def _armed(text: str) -> _Armed:
    if os.environ.get("RELAYBOX_ENVIRONMENT") != "test":
        raise ConfigurationError(
            "RELAYBOX_FAILPOINTS is set, but this is not a test.",
            next_step="Unset it; only with RELAYBOX_ENVIRONMENT=test may faults be injected.",
        )
    return _Armed(dict(_parse(part.strip()) for part in text.split(",")))


def _parse(part: str) -> tuple[tuple[str, int], str]:
    """`slice.copied:2=kill` -> (("slice.copied", 2), "kill")."""
    moment, _, action = part.partition("=")
    failpoint, _, hit = moment.partition(":")
    known = action in {"pause", *_END} or (action.startswith("raise ") and action[6:].isalnum() and len(action) == 11)
    if failpoint not in KNOWN_FAILPOINTS or not known or not (hit or "1").isdecimal():
        raise ConfigurationError(
            f"RELAYBOX_FAILPOINTS: {part!r} is not FAILPOINT[:HIT]=ACTION.",
            next_step=f"Actions: kill, stop, exit, pause, raise SQLSTATE. Failpoints: {', '.join(KNOWN_FAILPOINTS)}.",
        )
    return (failpoint, int(hit or 1)), action
