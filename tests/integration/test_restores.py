"""Stores of a route are put back to earlier times, alone and together: what still exists anywhere arrives at the last one, once, in order."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import Cluster
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.verification.route_verification import verify_route
from tests.integration.restores import PATH, Chain
from tests.support.disposal import discard
from tests.support.world import SMALL_SEGMENTS

pytestmark = pytest.mark.thorough

_numbers = itertools.count(1)

MakeChain = Callable[..., Chain]


@pytest.fixture(scope="module")
def templates() -> Iterator[dict[str, Chain]]:
    """Initialised, empty stores, by what is special about their route."""
    made: dict[str, Chain] = {}
    yield made
    discard(database for chain in made.values() for database in chain.databases())


@pytest.fixture
def make_chain(
    clusters: Mapping[str, Cluster], templates: dict[str, Chain], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MakeChain]:
    """Makes a route over this number of stores."""
    made: list[Chain] = []
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))

    def make_one(length: int, template: Chain | None, route: Mapping[str, object]) -> Chain:
        path = (*PATH[: length - 1], PATH[-1])
        chain = Chain(list(clusters.values()), tmp_path, f"restores_{os.getpid()}_{next(_numbers)}", path)
        chain.make(template, **route)
        return chain

    def make(length: int = len(PATH), **route: object) -> Chain:
        kind = f"{length} {route}"
        if kind not in templates:
            templates[kind] = make_one(length, None, route)
        made.append(make_one(length, templates[kind], route))
        return made[-1]

    yield make
    discard(database for chain in made for database in chain.databases())


SUBSETS = [subset for size in range(1, 5) for subset in itertools.combinations(PATH, size)]
TIMES = [("same", False), ("same", True), ("origin newest", True), ("origin oldest", False)]
EVERY_CASE = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200
CASES = [
    pytest.param(subset, *times, id=f"{'+'.join(subset)}-{times[0]}-{'promoted' if times[1] else 'restored'}")
    for number, subset in enumerate(SUBSETS)
    for other, times in enumerate(TIMES)
    if EVERY_CASE or (number % 2 == 0 and other == number // 2 % len(TIMES))
]
"""All 60 in `make test-faults`; otherwise every second subset, each with one of the times."""


def history(chain: Chain, restored_to: Mapping[str, int]) -> Mapping[str, str]:
    """Messages flow, now farther and now less far; of each store that is restored later a copy at one of three moments."""
    copies: dict[str, str] = {}

    def moment(number: int) -> None:
        copies.update(chain.back_up(*(store for store, when in restored_to.items() if when == number)))

    chain.send(12)
    chain.transfer()
    chain.settle()
    chain.send(5)
    chain.transfer(1)
    moment(0)
    chain.transfer()
    chain.send(13)
    chain.transfer(*range(1, len(chain.path) - 1))
    moment(1)
    chain.send(4)
    chain.transfer()
    chain.settle()
    chain.send(3)
    moment(2)
    chain.transfer()
    chain.send(11)
    chain.transfer()
    return copies


@pytest.mark.parametrize(("subset", "moments", "promoted"), CASES)
def test_restores_of_any_stores_lose_nothing_that_exists(
    make_chain: MakeChain, subset: tuple[str, ...], moments: str, promoted: bool
) -> None:
    """Any subset of four stores, to one moment or to different ones, with as many new messages as old ones or more or fewer."""
    chain = make_chain(policy="cascade")
    when = dict(
        zip(PATH, {"same": [1, 1, 1, 1], "origin newest": [2, 1, 0, 1], "origin oldest": [0, 1, 2, 1]}[moments], strict=True)
    )
    copies = history(chain, {store: when[store] for store in subset})
    for store, copy in copies.items():
        chain.restore(store, copy, promoted=promoted)
    existing = chain.existing()
    chain.send(7)
    existing |= set(chain.committed[-7:])
    chain.repair()
    chain.send(25)
    existing |= set(chain.committed[-25:])
    chain.transfer()
    chain.settle()
    assert list(chain.wrong(existing)) == []


def origin_and_first_go_back(chain: Chain) -> None:
    """20 messages moved and copied, 30 more moved; then the first two stores, of one cluster, are put back together."""
    chain.send(20)
    chain.transfer()
    copies = chain.back_up("origin", "first")
    chain.send(30)
    chain.transfer()
    for store, copy in copies.items():
        chain.restore(store, copy)


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_new_messages_at_the_positions_of_old_ones_are_sent_to_new_positions(make_chain: MakeChain, order: str) -> None:
    """Positions 21 to 50 hold new messages in the first log and old ones in the last; retention drops what arrived, and no more."""
    chain = make_chain(3, policy="cascade", order=order, retention={"replay_window_seconds": 0})
    for store in chain.path:
        chain.query(store, SMALL_SEGMENTS)
    origin_and_first_go_back(chain)
    existing = chain.existing()
    chain.send(30)
    existing |= set(chain.committed[-30:])
    chain.transfer(1)
    with pytest.raises(errors.HistoryLost):
        chain.transfer(2)
    hop = chain.route.hops[1]
    found = reanchor_hop(hop, chain.routes, recorded_by="test", reason="restored", dry_run=False)
    assert (found.adopted_count, len(found.ghosts), found.undelivered_count) == (30, 30, 30)
    assert chain.query("first", "select * from relaybox_internal.log_unread('r/2')") == [(21, 50)]
    chain.transfer(2)
    assert chain.log(hop) == chain.committed
    chain.settle()
    assert list(chain.wrong(existing)) == []
    chain.retain()
    kept = chain.query("first", "select first_kept_position from relaybox_internal.hop_in")
    assert (kept, chain.query("first", "select compacted_read < compacted_position from relaybox_internal.hop_out")) == (
        [(50,)],
        [(True,)],
    )
    chain.send(12)
    chain.transfer()
    chain.settle()
    assert verify_route(chain.route).outcome == "delivered"
    assert chain.query("last", "select max(log_position) from relaybox_internal.log") == [(92,)]


def test_fewer_new_messages_than_old_ones_are_no_dead_end(make_chain: MakeChain) -> None:
    """The log is shorter than what was delivered of it, and nothing more is to come: the hop goes on at once."""
    chain = make_chain(3, policy="cascade")
    origin_and_first_go_back(chain)
    existing = chain.existing()
    assert chain.repair() == ["r/2"]
    chain.send(1)
    existing.add(chain.committed[-1])
    chain.transfer()
    chain.settle()
    assert list(chain.wrong(existing)) == []


def test_a_prepared_transaction_may_still_commit_what_would_be_given_up(make_chain: MakeChain) -> None:
    """It was prepared before the restore and committed and delivered after it: reanchoring waits for its end."""
    chain = make_chain(3)
    origin_and_first_go_back(chain)
    chain.query(
        "origin", "begin; insert into relaybox.outbox (topic, sender, payload) values ('t', 'UA', 'x'); prepare transaction 'p'"
    )
    with pytest.raises(errors.StoreBusy, match="prepared transaction p has sent messages"):
        reanchor_hop(chain.route.hops[1], chain.routes, recorded_by="test", reason="restored", dry_run=False)
    chain.query("origin", "rollback prepared 'p'")
    assert chain.repair() == ["r/2"]
