"""What the streams of the user's routes hold back, who reads them, and what was set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from relaybox import errors
from relaybox.consumers.subscriptions import DeadLetter, Subscribed, list_dead_letters, list_subscriptions
from relaybox.monitoring.findings import Finding, find_dead_letters, find_held
from relaybox.streams.holdback import Gap, StoreHoldback, read_holdback

if TYPE_CHECKING:
    from relaybox.airflow.page.access import Rights
    from relaybox.airflow.page.gathered import Gathering
    from relaybox.routes import Route, Store

SHOWN_LETTERS = 100
PREVIEW_CHARACTERS = 300

_Row = TypeVar("_Row")


@dataclass(frozen=True)
class SeenStreams:
    """Of the streams that the user may see, at the stores that answered. Payloads are None for who may not run their hops."""

    holdbacks: tuple[StoreHoldback, ...]
    subscriptions: tuple[Subscribed, ...]
    letters: tuple[DeadLetter, ...]
    silent: tuple[str, ...]
    routes: Mapping[tuple[str, str], str]
    """The route that brings a stream to a store: through it people order what concerns them."""

    @property
    def gaps(self) -> tuple[tuple[str, str, Gap], ...]:
        """The first gap of each sender that something waits for: route, sender, indexes. A gap of several stores once."""
        found = {
            (here.route, held.sender): (here.route, held.sender, held.missing[0])
            for here in reversed(self.holdbacks)
            for held in here.senders
            if held.missing
        }
        return tuple(found.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*find_held(self.holdbacks), *find_dead_letters(self.subscriptions))


def read_streams(gathering: Gathering, rights: Rights) -> SeenStreams:
    """Asks the stores where the user's routes arrive."""
    routes = gathering.readable_routes(rights)
    everything = gathering.routes()
    visible = {route.stream for route in routes}
    runnable = {route.stream for route in routes} - {
        route.stream for route in everything.routes.values() if not all(rights.may_run(hop) for hop in route.hops)
    }
    holdbacks = read_holdback(everything, routes)
    silent = {here.store for here in holdbacks if here.error is not None}
    stores = [store for store in _arrival_stores(routes) if store.name not in silent]
    return SeenStreams(
        holdbacks=tuple(here for here in holdbacks if here.error is None),
        subscriptions=tuple(one for one in _from_each(stores, list_subscriptions, silent) if one.stream in visible),
        letters=tuple(
            _preview(letter, shown=letter.stream in runnable)
            for letter in _from_each(stores, lambda store: list_dead_letters(store, limit=SHOWN_LETTERS), silent)
            if letter.stream in visible
        ),
        silent=tuple(sorted(silent)),
        routes={(route.stream, hop.destination.name): route.name for route in reversed(routes) for hop in route.hops},
    )


def _arrival_stores(routes: Sequence[Route]) -> list[Store]:
    return list(dict.fromkeys(hop.destination for route in routes for hop in route.hops))


def _from_each(stores: Iterable[Store], ask: Callable[[Store], list[_Row]], silent: set[str]) -> Iterator[_Row]:
    for store in stores:
        try:
            yield from ask(store)
        except errors.RelayboxError:
            silent.add(store.name)  # said so on the page


def _preview(letter: DeadLetter, *, shown: bool) -> DeadLetter:
    """The beginning of a payload, for those who may act on it; headers and key are the application's too."""
    if not shown:
        return replace(letter, payload=None, key=None, headers=None, detail=None)
    return replace(letter, payload=letter.payload and letter.payload[:PREVIEW_CHARACTERS])
