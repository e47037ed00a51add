"""What a run of the model is allowed to do: its bounds, and the rules of the protocol that are switched off."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.moves import put
from tests.model.state import BANK, HUB, IDLE, SHOP, STORES, State

Step = tuple[str, State]
"""What is said of a step, and the state after it."""


@dataclass(frozen=True)
class Bounds:
    """How much may happen.

    Attributes:
        hops: 1 (shop to hub) or 2 (and hub to bank).
        messages: of each sender. The last sender commits with synchronous_commit off, the first may number its transaction early.
        drivers: at a time, zombies included.
        batch_rows: most rows of a batch.
        crashes, failovers: of any of the stores in `fragile`, all together.
        fragile: stores that crash or fail over.
        processed: the policy: the last hop settles what a consumer of its log has acknowledged.
        topics: of the route, at the start.
        sends: the topic of each sender.
        changes: how often the route's topics become others.
        retires: whether a change may as well give up, on record, what is kept of a topic that the route has not.
        retention: rows of the outbox may be dropped, each as a segment of its own.
        passes: other sessions move hop 1 on while it has nothing to move.
        reloads: a failover of the origin may as well be a dump and reload: transactions begin at 1 again.
    """

    hops: int = 2
    messages: tuple[int, ...] = (1, 1)
    drivers: int = 2
    batch_rows: int = 1
    crashes: int = 1
    failovers: int = 0
    fragile: tuple[int, ...] = (SHOP, HUB, BANK)
    processed: bool = False
    topics: str = "a"
    sends: tuple[str, ...] = ("a", "a")
    changes: int = 0
    retires: bool = False
    retention: bool = False
    reloads: bool = False
    passes: bool = False

    @property
    def repairs(self) -> bool:
        """Whether a hop that stopped is reanchored. The second hop's repair is not modelled."""
        return bool(self.failovers and self.hops == 1 and (self.changes or self.retention))

    @property
    def all_topics(self) -> str:
        """In their order."""
        return "".join(sorted({*self.topics, *self.sends}))

    def __str__(self) -> str:
        fragile = ", ".join(STORES[store] for store in self.fragile)
        changing = f", topics {self.topics} with {self.changes} changes, sent {'+'.join(self.sends)}" if self.changes else ""
        return (
            f"{self.hops} hops, senders with {self.messages} messages, {self.drivers} drivers, batches of {self.batch_rows}, "
            f"{self.crashes} crashes, {self.failovers} failovers ({fragile}){', processed' if self.processed else ''}"
            f"{changing}{', retiring' if self.retires else ''}{', retention' if self.retention else ''}{', reloads' if self.reloads else ''}"
            f"{', passed when idle' if self.passes else ''}"
        )


class Rules:
    """The bounds and the broken rules, as all parts of the protocol look at them."""

    def __init__(self, bounds: Bounds, broken: frozenset[str] = frozenset()) -> None:
        self.bounds = bounds
        self.broken = broken

    def name(self, message: int) -> str:
        """A1, A2 ... of the first sender, B1 ... of the second."""
        first = self.bounds.messages[0]
        return f"A{message + 1}" if message < first else f"B{message - first + 1}"

    def alarm(self, state: State, slot: int, text: str) -> Step:
        """A terminal error. Once a store lost history that is as it should be; before, it is a false alarm."""
        stopped = put(state, slot, IDLE)
        has_failed_over = any(server.timeline > 1 for server in state.servers)
        return f"STOP: {text}", stopped if has_failed_over else stopped._replace(alarm=text)

    def plans_ahead(self, received: int, planned: int) -> bool:
        """A broken protocol may have two batches under way."""
        return "plan_without_waiting" in self.broken and planned - received < 2
