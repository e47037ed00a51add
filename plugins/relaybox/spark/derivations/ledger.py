"""What the store keeps of a derivation: its version, and each attempt, written before the attempt begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import DerivationChanged, RelayboxError
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Derivation, Route
    from relaybox.spark.derivations.source import Source

_BEGIN = "select derivation_id from relaybox_internal.begin_derivation(%s, %s, %s, %s, %s, %s, %s)"
_REFUSE = """
    select relaybox_internal.refuse_changed_derivation(n, %s, %s, %s, %s, %s)
    from relaybox_internal.newest_derivation(%s) n where n.version >= %s
"""
_BEGIN_ATTEMPT = """
    select
        a.derivation_id, a.attempt, a.token, a.message_count, array(select lower(r) from unnest(a.stream_positions) r) as firsts,
        array(select upper(r) - 1 from unnest(a.stream_positions) r) as lasts
    from relaybox_internal.begin_derivation_attempt(%s, %s, %s) a
"""
_NEXT = """
    select n.first, least(n.first + %(count)s - 1, r.newest_stream_position) as last
    from (select relaybox_internal.derivation_start(%(route)s, %(version)s, %(stream)s, %(start)s) as first) n,
        relaybox.stream_range(%(stream)s, 'latest') r
"""
_HAS_WORK = "select relaybox_internal.derivation_has_work(%s, %s, %s, %s)"
_FAIL = "select relaybox_internal.fail_derivation_attempt(%s, %s, %s, %s, %s)"


@dataclass(frozen=True)
class Attempt:
    """Messages from which one attempt derives.

    Attributes:
        token: that no other attempt has, also after the store was restored.
        firsts, lasts: the ends of the runs of stream positions, both included.
        message_count: messages in these.
    """

    derivation_id: int
    attempt: int
    token: str
    message_count: int
    firsts: list[int]
    lasts: list[int]


class _Ends(NamedTuple):
    first: int
    last: int


class Ledger:
    """A session of the driver, in the store where a derivation runs."""

    def __init__(self, session: StoreSession, route: Route, derivation: Derivation) -> None:
        self.session = session
        self.route = route
        self.derivation = derivation
        self.derivation_id = 0

    def is_promoted(self) -> bool:
        """Whether the store is at the version of the key `next` by now: it has promoted that."""
        promoted: bool = self.derivation.next is not None and _newest(self.session, self.route) == self.derivation.next.version
        return promoted

    def begin(self, source: Source) -> None:
        """Begins this version of the derivation, unless the store has it. One transaction, durable.

        Raises:
            DerivationChanged: the store has a higher version, or this one with another stream or another source.
            NotSubscribed, NoLongerKept, RequestRefused, Transient, Terminal: as subscribe().
        """
        derivation = self.derivation
        given = (self.route.name, derivation.version, derivation.stream, source.name, source.digest, derivation.start)
        self.derivation_id = self.session.value(_BEGIN, *given, derivation.changed_source == "refuse")
        self.session.commit_durably("derive_version")

    def has_work(self) -> bool:
        """Whether there are messages of which this version would derive. Writes nothing.

        Raises:
            NotSubscribed: somebody ended its subscription.
            UnknownStream, NoLongerKept, Transient, Terminal: as begin().
        """
        derivation = self.derivation
        given = (self.route.name, derivation.version, derivation.stream, derivation.start)
        has_work: bool = self.session.value(_HAS_WORK, *given)
        self.session.rollback()
        return has_work

    def read_next(self, max_count: int) -> tuple[int, int]:
        """The ends of the stream positions of which the next attempt would derive, both included; none if the last is below the first."""
        derivation = self.derivation
        given = {"route": self.route.name, "version": derivation.version, "stream": derivation.stream, "start": derivation.start}
        found = self.session.row(_Ends, _NEXT, given | {"count": max_count})
        self.session.rollback()
        return found.first, found.last

    def refusal(self, source: Source) -> DerivationChanged | None:
        """Why a run would be refused now; None: it would not. Writes nothing."""
        derivation = self.derivation
        given = (derivation.version, derivation.stream, source.name, source.digest, derivation.changed_source == "refuse")
        try:
            self.session.execute(_REFUSE, *given, self.route.name, derivation.version)
        except DerivationChanged as refused:
            return refused
        finally:
            self.session.rollback()
        return None

    def begin_attempt(self, max_count: int, begun_by: str) -> Attempt | None:
        """Fetches messages, and puts on record that this attempt derives from them; None: there are none. Ends the attempt before it.

        Raises:
            NotSubscribed: somebody ended the subscription.
            NoLongerKept, Detached, LaneLost, Transient, Terminal: as fetch().
        """
        attempt = self.session.row_if_any(Attempt, _BEGIN_ATTEMPT, self.derivation_id, max_count, begun_by)
        self.session.commit_durably("derive_attempt")
        return attempt

    def fail(self, attempt: Attempt, reason: str, *, dead_letter: bool) -> None:
        """Puts on record why it failed, and gives its messages back; a single one becomes a dead letter, if asked for."""
        with rolled_back_after_errors(self.session):
            self.session.execute(_FAIL, attempt.derivation_id, attempt.attempt, attempt.token, reason, dead_letter)
            self.session.commit_durably("derive_failure")


@contextmanager
def rolled_back_after_errors(session: StoreSession) -> Iterator[None]:
    """After an error the session takes the next statement: a run goes on though a failure could not be put on record."""
    try:
        yield
    except RelayboxError:
        with suppress(RelayboxError):  # of a session that is lost the first error says more
            session.rollback()
        raise


@contextmanager
def open_ledger(route: Route, derivation: Derivation) -> Iterator[Ledger]:
    """A ledger until the block ends: of the version of `next`, where the store has promoted it."""
    store = route.path[0]
    connection = connect(store.service, application_name=f"relaybox derive {route.name}")
    with closing(StoreSession(connection, store.name, f"deriving the messages of route {route.name}")) as session:
        if derivation.next and _newest(session, route) == derivation.next.version:
            derivation = derivation.next
        yield Ledger(session, route, derivation)


def _newest(session: StoreSession, route: Route) -> int | None:
    newest: int | None = session.value("select version from relaybox_internal.newest_derivation(%s)", route.name)
    session.rollback()
    return newest
