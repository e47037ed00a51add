"""The task that looks at all hops of a store, and wakes those that lie idle although they should not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator

from relaybox.airflow.hop_state import read_idle_hops
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.errors import Transient
from relaybox.events import emit
from relaybox.routes import Hop, Store
from relaybox.streams.topics import carry_topics_of

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class WatchedHop:
    """A hop, the asset whose events start its transfer, and the one whose events start its confirmation.

    `carries_topics`: the hop itself, where consumers add topics by subscribing.
    """

    name: str
    reads: Asset
    settles: Asset
    carries_topics: Hop | None = None


class StoreLookOperator(BaseOperator):
    """One session, one query for all hops that leave the store. An event is a wake-up: one too many does no harm."""

    def __init__(self, *, store: Store, hops: Sequence[WatchedHop], alias: AssetAlias, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store = store
        self.hops = hops
        self.alias = alias

    def execute(self, context: Context) -> dict[str, list[str]]:
        """Returns the hops that were woken: names to look at in XCom, read by nobody."""
        for carrying in [hop.carries_topics for hop in self.hops if hop.carries_topics]:
            _carry_topics(carrying)
        with terminal_errors_fail_at_once(), service_file((self.store,)):
            idle = {hop.hop: hop for hop in read_idle_hops(self.store)}
        waiting = [hop for hop in self.hops if hop.name in idle and idle[hop.name].has_work]
        unsettled = [hop for hop in self.hops if hop.name in idle and idle[hop.name].is_unsettled]
        events = context["outlet_events"][self.alias]
        for hop in waiting:
            emit("hop_woken", hop=hop.name, reason="work")
            events.add(hop.reads)
        for hop in unsettled:
            emit("hop_woken", hop=hop.name, reason="unsettled")
            events.add(hop.settles)
        return {"waiting": [hop.name for hop in waiting], "unsettled": [hop.name for hop in unsettled]}


def _carry_topics(hop: Hop) -> None:
    with terminal_errors_fail_at_once(), service_file((hop.source, hop.destination)):
        try:
            carry_topics_of(hop)
        except Transient as error:  # the next look tries again; a destination that is down must hide no other hop
            emit("topics_not_carried", hop=hop.name, error=error)
