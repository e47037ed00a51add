"""G12, the law of conservation: each row that the origin keeps is in exactly one account of the hop that reads it."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.protocol import Protocol
from tests.model.state import HUB, SHOP, Piece, Row, State


def accounts(protocol: Protocol, state: State, row: Row) -> list[str]:
    """Where a row is by the ledger: delivered, planned, waiting, unrouted, given up. Exactly one of them is right.

    None of them is right for a topic that the hop never had: then the row is kept until some route has it.
    """
    shop = state.servers[SHOP].now
    ledger = shop.ledger
    found = [
        f"{'delivered' if number <= ledger.received else 'planned'} in batch {number}"
        for number in protocol.batches_of(shop.rows, ledger, row)
    ]
    found += [_kind(piece) for piece in ledger.pieces if piece.holds(row)]
    if row.topic in ledger.topics and row.seq > ledger.anchor and not ledger.lower.sees(row.xid):
        found.append("waiting beyond the frontier")
    return found


def _kind(piece: Piece) -> str:
    return "given up" if piece.is_retired else "waiting in the backlog" if piece.is_routed else "unrouted"


def breaches(protocol: Protocol, state: State) -> Iterator[str]:
    """Rows in no account or in several, and dropped rows that nobody has."""
    if state.servers[SHOP].timeline != state.servers[SHOP].now.ledger.timeline:
        return  # the numbers of transactions are those of another history until the hop is reanchored
    shop = state.servers[SHOP].now
    had = {*shop.ledger.topics} | {topic for piece in shop.ledger.pieces for topic in piece.topics}
    had |= {topic for batch in shop.ledger.batches for topic in batch.topics}
    for row in shop.rows:
        found = accounts(protocol, state, row)
        if len(found) > 1 or (not found and row.topic in had):
            yield f"G12: {protocol.name(row.message)} is {' and '.join(found) or 'in no account: neither moved nor waiting'}"
        if "given up" in found and not state.retired >> row.message & 1:
            yield f"G12: {protocol.name(row.message)} is given up, and nobody was told so"
    if state.servers[HUB].timeline > 1:
        return  # what the destination lost after its confirmation is no matter of this ledger
    arrived = {message for _, message in state.servers[HUB].now.log.readable}
    for row in shop.dropped:
        if row.message not in arrived and not shop.ledger.has_given_up(row):
            yield f"G8: retention dropped {protocol.name(row.message)}, and hub never had it"
