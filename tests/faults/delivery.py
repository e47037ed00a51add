"""What a route delivered, by the rows of its stores and not by any report of Relaybox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.support.world import World


@dataclass(frozen=True)
class Delivered:
    """Payloads of a route of two hops: sent (by seq), and of each hop's log (by position)."""

    sent: Sequence[str]
    logs: Mapping[str, Sequence[str]]

    def ghosts(self, hop: str) -> list[str]:
        """What a log holds and the outbox has never heard of."""
        known = set(self.sent)
        return [payload for payload in self.logs[hop] if payload not in known]


def read_delivered(world: World) -> Delivered:
    return Delivered(world.sent(), {hop.name: world.payloads(hop.name) for hop in world.route.hops})


def overwritten(before: Delivered, now: Delivered) -> Iterator[str]:
    """What consumers have read is there for ever: a log only grows."""
    for hop, log in before.logs.items():
        if list(now.logs[hop][: len(log)]) != list(log):
            yield f"{hop}: what was published is not there any more, or not in its site"


def undelivered(now: Delivered) -> Iterator[str]:
    """Every committed message is in every log."""
    for hop, log in now.logs.items():
        lost = [payload for payload in now.sent if payload not in set(log)]
        if lost:
            yield f"{hop}: {len(lost)} lost, first {lost[0]}"


def doubled(now: Delivered) -> Iterator[str]:
    """No message is in a log twice."""
    for hop, log in now.logs.items():
        twice = [payload for payload, count in Counter(log).items() if count > 1]
        if twice:
            yield f"{hop}: {len(twice)} doubled, first {twice[0]}"


def disordered(now: Delivered) -> Iterator[str]:
    """Each sender's messages that still exist are in the order of its commits; payloads are sender-number."""
    for hop, log in now.logs.items():
        known = set(now.sent)
        last: dict[str, int] = {}
        for payload in log:
            sender, number = payload.rsplit("-", 1)
            if payload in known and int(number) <= last.get(sender, 0):
                yield f"{hop}: {payload} after {sender}-{last[sender]}"
                break
            last[sender] = max(last.get(sender, 0), int(number)) if payload in known else last.get(sender, 0)


def not_dense(world: World) -> Iterator[str]:
    """Positions of a log are 1..N."""
    for hop in world.route.hops:
        if any(later != earlier + 1 for earlier, later in pairwise([0, *world.log_positions(hop.name)])):
            yield f"{hop.name}: a position is missing"


def confirmed_too_early(world: World) -> Iterator[str]:
    """Nothing is confirmed at a source beyond what its destination has published."""
    for hop in world.route.hops:
        confirmed = world.value(
            hop.source.name,
            "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = %s and state = 'received'",
            hop.name,
        )
        published = world.value(
            hop.destination.name, "select published_position from relaybox_internal.hop_in where hop = %s", hop.name
        )
        if confirmed > published:
            yield f"{hop.name}: confirmed through {confirmed}, published through {published}"
