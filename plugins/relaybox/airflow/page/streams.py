"""What the streams of the user's routes hold back, who reads them, and what was set aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.log_events import warn
from relaybox.monitoring.derivations import DerivationStatus, OpenTrial, read_derivations, read_open_trials
from relaybox.monitoring.finding import Finding
from relaybox.monitoring.store_findings import find_dead_letters, find_held, find_reader_problems, next_step_after, plain_words
from relaybox.stores.opening import one_session
from relaybox.stores.readers.reader_problems import ReaderProblem, list_reader_problems
from relaybox.stores.sessions.connections import lacks_right
from relaybox.stores.sessions.sqlstates import grant_role_to
from relaybox.streams.holdback import Gap, StoreHoldback, read_store_holdback
from relaybox.subscriptions.dead_letters import DeadLetter, list_dead_letters
from relaybox.subscriptions.subscriptions import SubscriptionStatus, list_subscriptions

if TYPE_CHECKING:
    from relaybox.airflow.page.permissions import Rights
    from relaybox.routes import Route, Routes, Store

SHOWN_LETTERS = 100
PREVIEW_CHARACTERS = 300


@dataclass(frozen=True)
class UnreadStore:
    """A store whose streams were not read: what is wrong, and what to do, in words that name no host, user or file of it."""

    store: str
    what: str
    next_step: str
    is_silent: bool

    @classmethod
    def of(cls, store: Store, error: errors.RelayboxError) -> UnreadStore:
        if lacks_right(error):
            refused = f"Store {store.name} may not be read by the page's login"
            return cls(store.name, refused, grant_role_to("the page's login"), is_silent=False)
        if isinstance(error, errors.StoreUnreachable):
            return cls(store.name, f"Store {store.name} does not answer", next_step_after(error), is_silent=True)
        return cls(store.name, f"Store {store.name} was not read: {plain_words(error)}", next_step_after(error), is_silent=False)


@dataclass(frozen=True)
class VisibleStreams:
    """Of the streams that the user may see, at the stores that were read. Payloads are None for who may not run their hops."""

    holdbacks: tuple[StoreHoldback, ...]
    subscriptions: tuple[SubscriptionStatus, ...]
    dead_letters: tuple[DeadLetter, ...]
    reader_problems: tuple[ReaderProblem, ...]
    unread: tuple[UnreadStore, ...]
    read_count: int
    """Number of the stores that were read."""
    routes: Mapping[tuple[str, str], str]
    """The route that brings a stream to a store: its DAGs carry out the actions on the stream."""

    @property
    def gaps(self) -> tuple[tuple[str, str, Gap], ...]:
        """The gap before the first held message of each sender: route, sender, indexes. A gap of several stores once."""
        found = {
            (here.route, held.sender): (here.route, held.sender, held.own_gap)
            for here in reversed(self.holdbacks)
            for held in here.senders
            if held.own_gap is not None
        }
        return tuple(found.values())

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*find_held(self.holdbacks), *find_dead_letters(self.subscriptions))

    @property
    def reader_findings(self) -> tuple[Finding, ...]:
        return tuple(find_reader_problems(self.reader_problems))

    def problem_of(self, subscription: SubscriptionStatus) -> ReaderProblem | None:
        """What is wrong with a subscription that is listed; None: nothing, or it is a second cursor."""
        key = (subscription.store, subscription.subscription)
        return next((one for one in self.reader_problems if (one.store, one.subscription) == key), None)


@dataclass(frozen=True)
class AllStreams:
    """What the stores said of all streams, before any user's rights are applied."""

    everything: Routes
    holdbacks: Sequence[StoreHoldback]
    subscriptions: Sequence[SubscriptionStatus]
    dead_letters: Sequence[DeadLetter]
    reader_problems: Sequence[ReaderProblem]
    derivations: Sequence[StoreDerivation]
    trials: Sequence[StoreTrial]
    unread: Sequence[UnreadStore]

    @classmethod
    def of(cls, routes: Routes, said: Mapping[Store, StoreStreams | errors.RelayboxError]) -> AllStreams:
        """Of what each store said, or why it said nothing."""
        answers = [answer for answer in said.values() if isinstance(answer, StoreStreams)]
        return cls(
            everything=routes,
            holdbacks=[here for answer in answers for here in answer.holdbacks],
            subscriptions=[one for answer in answers for one in answer.subscriptions],
            dead_letters=[dead_letter for answer in answers for dead_letter in answer.dead_letters],
            reader_problems=[problem for answer in answers for problem in answer.reader_problems],
            derivations=[one for answer in answers for one in answer.derivations],
            trials=[one for answer in answers for one in answer.trials],
            unread=[UnreadStore.of(store, answer) for store, answer in said.items() if not isinstance(answer, StoreStreams)],
        )

    def seen_by(self, rights: Rights) -> VisibleStreams:
        """Of the routes all of whose hops the user may read."""
        routes = [route for route in self.everything.routes.values() if all(rights.may_read(hop) for hop in route.hops)]
        hidden = [route.name for route in self.everything.routes.values() if route not in routes]
        visible = {route.stream for route in routes}
        runnable = visible - {
            route.stream for route in self.everything.routes.values() if not all(rights.may_run(hop) for hop in route.hops)
        }
        stores = {store.name for store in arrival_stores(routes)}
        unread = tuple(one for one in sorted(self.unread, key=lambda one: one.store) if one.store in stores)
        return VisibleStreams(
            holdbacks=tuple(
                _without_routes(here, hidden) for here in self.holdbacks if here.error is None and here.stream in visible
            ),
            subscriptions=tuple(one for one in self.subscriptions if one.stream in visible),
            dead_letters=tuple(
                _preview(dead_letter, shown=dead_letter.stream in runnable)
                for dead_letter in self.dead_letters
                if dead_letter.stream in visible
            ),
            reader_problems=tuple(problem for problem in self.reader_problems if problem.stream in visible),
            unread=unread,
            read_count=len(stores) - len(unread),
            routes={(route.stream, hop.destination.name): route.name for route in reversed(routes) for hop in route.hops},
        )


@dataclass(frozen=True)
class StoreDerivation:
    """A derivation, and the store where it runs."""

    store: str
    derivation: DerivationStatus


@dataclass(frozen=True)
class StoreTrial:
    """An open trial, and the store where it is."""

    store: str
    trial: OpenTrial


@dataclass(frozen=True)
class StoreStreams:
    """What one store said of all its streams, and of the derivations that read them."""

    holdbacks: Sequence[StoreHoldback]
    subscriptions: Sequence[SubscriptionStatus]
    dead_letters: Sequence[DeadLetter]
    reader_problems: Sequence[ReaderProblem] = ()
    derivations: Sequence[StoreDerivation] = ()
    trials: Sequence[StoreTrial] = ()


def read_store_streams(routes: Routes, store: Store) -> StoreStreams | errors.RelayboxError:
    """Asks a store, in one session. An error is an answer too: the page says so."""
    try:
        with one_session(store, "reading its streams", application_name="relaybox streams") as session:
            holdbacks = read_store_holdback(routes, store)
            dead_letters = list_dead_letters(store, limit=SHOWN_LETTERS, payload_characters=PREVIEW_CHARACTERS + 1)
            derived = [route.name for route in routes.routes.values() if route.derivation is not None and route.path[0] == store]
            derivations = [StoreDerivation(store.name, one) for one in read_derivations(session, derived)] if derived else []
            trials = [StoreTrial(store.name, one) for one in read_open_trials(session, derived)] if derived else []
            problems = list_reader_problems(session, store, routes)
            return StoreStreams(holdbacks, list_subscriptions(store), dead_letters, problems, derivations, trials)
    except errors.RelayboxError as error:
        if not isinstance(error, errors.StoreUnreachable):
            warn("streams_not_read", store=store.name, error=error)
        return error


def _without_routes(here: StoreHoldback, hidden: Sequence[str]) -> StoreHoldback:
    """Repairs name the route to give them to: those of routes that the user may not read are not shown."""
    named = tuple(f"relaybox skip {route} " for route in hidden)
    return replace(
        here,
        senders=tuple(
            replace(sender, repairs=tuple(repair for repair in sender.repairs if not repair.startswith(named)))
            for sender in here.senders
        ),
    )


def arrival_stores(routes: Iterable[Route]) -> list[Store]:
    """The stores where these routes arrive: those that have their streams."""
    return list(dict.fromkeys(hop.destination for route in routes for hop in route.hops))


def _preview(dead_letter: DeadLetter, *, shown: bool) -> DeadLetter:
    """The beginning of a payload and of a reason, for those who may act on it; headers and key are the application's too."""
    if not shown:
        return replace(dead_letter, payload=None, key=None, headers=None, detail=None)
    return replace(dead_letter, payload=_beginning(dead_letter.payload), detail=_beginning(dead_letter.detail))


def _beginning(text: str | None) -> str | None:
    return text if text is None or len(text) <= PREVIEW_CHARACTERS else f"{text[:PREVIEW_CHARACTERS]} ..."
