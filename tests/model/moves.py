"""How a state changes: a driver or a producer takes a step, a store commits, restarts."""

from __future__ import annotations

from tests.model.state import IDLE, SHOP, Driver, Sender, Server, State, Store


def put(state: State, slot: int, driver: Driver) -> State:
    """Drivers are alike: their order says nothing."""
    return state._replace(drivers=in_order([*state.drivers[:slot], driver, *state.drivers[slot + 1 :]]))


def in_order(drivers: list[Driver]) -> tuple[Driver, ...]:
    return tuple(sorted(drivers, key=lambda driver: (driver.step, driver.hop, driver.number, driver.plan, driver.rows)))


def with_sender(state: State, number: int, sender: Sender) -> State:
    return state._replace(senders=(*state.senders[:number], sender, *state.senders[number + 1 :]))


def with_server(state: State, slot: int, server: Server) -> State:
    return state._replace(servers=(*state.servers[:slot], server, *state.servers[slot + 1 :]))


def commit(state: State, slot: int, after: Store, *, durable: bool = True) -> State:
    """A durable commit flushes every commit before it; another one may be lost, with all that follow it."""
    server = state.servers[slot]
    losable = () if durable else (*server.losable, server.now)
    return with_server(state, slot, server._replace(now=after, losable=losable))


def restart(state: State, slot: int, server: Server) -> State:
    """Sessions of the store end: open transactions are gone, half-done slices too. Drivers between two steps live on."""
    after = with_server(state, slot, server)
    after = after._replace(drivers=in_order([IDLE if is_inside(driver, slot) else driver for driver in state.drivers]))
    if slot != SHOP:
        return after
    # a seq that something durable names was logged before it: the sequence goes on behind it
    ledger = server.now.ledger
    named = [row.seq for row in (*server.now.rows, *server.now.dropped)]
    named += [piece.through for piece in ledger.pieces if piece.is_retired]
    return after._replace(
        senders=tuple(sender._replace(xid=0, row=None) for sender in state.senders),
        next_xid=server.now.top_xid + 1,
        next_seq=max([ledger.anchor, *named]) + 1,
        passing=None,
    )


def is_inside(driver: Driver, slot: int) -> bool:
    """It is inside a transaction of this store."""
    is_copying = driver.step in {"read", "guarded"} and slot in {driver.hop - 1, driver.hop}
    return is_copying or (driver.uncommitted is not None and slot == driver.hop - 1)
