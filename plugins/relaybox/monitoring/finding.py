"""One thing that keeps messages from being delivered, as the page, the CLI and the metrics show it.

Every text here is shown to people who may see the page and not the servers. So it names no host, path
or statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.monitoring.blockers import Blocker

RUNBOOKS = {
    "store_silent": "store-down",
    "history_lost": "lossy-failover",
    "standby_silent": "stopped-standby",
    "open_transaction": "open-transaction",
    "hop_blocked": "stopped-hop",
    "not_running": "stopped-hop",
    "batch_left": "unfinished-batch",
    "late": "late-hop",
    "unsettled": "missing-confirmations",
    "sender_held": "sender-gap",
    "sender_stalled": "stalled-sender",
    "dead_letters": "dead-letters",
    "topic_unrouted": "unrouted-topic",
    "topics_unknown": "unrouted-topic",
    "messages_detached": "detached-messages",
    "orphaned_hop": "growing-store",
    "hop_retired": "stopped-hop",
    "endpoint_fails": "failing-endpoint",
    "reader_problem": "reader-without-messages",
}
"""By kind of finding."""


class Severity(StrEnum):
    """How bad a finding is."""

    STUCK = "stuck"  # needs an action
    HELD = "held"  # continues when another session is done
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One problem that stops or delays messages.

    Attributes:
        kind: a stable identifier such as `open_transaction`.
        store: the store of the problem.
        hop: the hop that stops, if any; `affected` are this hop and those that read its log.
        stream: whose readers it names, if any: for those who may read the hops of the stream.
        since: None if unknown.
        what: one or two sentences.
        message_count: how many messages wait; None if that is not known.
        blockers: the transactions that block it.
        run_helps: True if a run of the hop solves the problem.
        next_step: what to do, as a sentence.
    """

    kind: str
    severity: Severity
    store: str
    what: str
    next_step: str
    hop: str | None = None
    stream: str | None = None
    affected: tuple[str, ...] = ()
    since: datetime | None = None
    message_count: int | None = None
    blockers: tuple[Blocker, ...] = ()
    run_helps: bool = False

    @property
    def runbook(self) -> str:
        """The runbook in docs/runbooks."""
        return RUNBOOKS[self.kind]
