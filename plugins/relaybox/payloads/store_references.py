"""Which files the messages of stores refer to, and since when transactions are open that may still commit a reference."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.payloads.place_stores import read_identity
from relaybox.stores.opening import store_session
from relaybox.stores.sessions.lock_holders import LOCK_HOLDERS
from relaybox.stores.sessions.settings import duration

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession

PATIENCE_SECONDS = 30.0
"""So long a transaction is waited for whose beginning is not known."""

READING_SECONDS = 3600
"""A reading of all stores that takes longer ends with an error: meanwhile retention drops nothing."""

_POLL_SECONDS = 0.05
_ROWS_PER_FETCH = 20_000


class StoreReference(NamedTuple):
    """A message of a store that refers to a file.

    Attributes:
        held_in: outbox, log of flights/1, detached from the log of flights/1, table public.orders ...
        position: its seq, its log position, or the number of its row there.
        place: the id of the place; None: the header is no reference.
        ref, digest, bytes: as of PayloadReference; None as above. Of a row that can't be a message only `ref` is known, without its day.
    """

    held_in: str
    position: int
    place: str | None
    ref: str | None
    digest: str | None
    bytes: int | None


@dataclass(frozen=True)
class OpenSince:
    """The oldest transaction of a store that may still commit a reference.

    Attributes:
        at: when it began; without one: the time of the store when it was asked.
        who: it, for people; None: no transaction is open.
        asked_at: the time of the store when it was asked.
        asked_monotonic: that of time.monotonic().
    """

    at: datetime
    who: str | None
    asked_at: datetime
    asked_monotonic: float

    def store_now(self) -> datetime:
        """The time of the store now; too late by at most the time that the question took."""
        return self.asked_at + timedelta(seconds=time.monotonic() - self.asked_monotonic)


@contextmanager
def stores_kept_still(stores: Iterable[Store]) -> Iterator[dict[Store, StoreSession]]:
    """Sessions in each of which a transaction is open: until their ends no store drops a segment, or moves one into files.

    A message moves from store to store: it is copied, and dropped later where it was. So whoever reads one store after the other while
    nothing is dropped finds each message, in whatever order. Of two that want this the second waits, then fails.

    Raises:
        CollectionRefused: a service leads to the database of another store.
        StoreBusy: another collection reads, or what it began hangs.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing is known without this store.
    """
    with ExitStack() as opened:
        sessions = {}
        for store in sorted(stores, key=lambda one: one.name):  # in one order, so that two don't wait for each other
            activity = "reading which payloads its messages refer to (without it nothing is removed)"
            session = opened.enter_context(store_session(store, activity, application_name="relaybox payloads"))
            session.set_local({"idle_in_transaction_session_timeout": duration(READING_SECONDS)})
            session.call("relaybox_internal.require_writable_primary")
            read_identity(session)  # two stores of one database would wait for each other
            session.execute("lock table relaybox_internal.payload_collection in exclusive mode")
            sessions[store] = session
        yield sessions


def read_open_since(session: StoreSession, *, patience_seconds: float = PATIENCE_SECONDS) -> OpenSince:
    """Since when a transaction is open that may still commit a reference. In the session's transaction.

    Ask before the references are read: what commits in between is found there, and what begins later is younger. The beginning of a
    transaction of another login is hidden without pg_read_all_stats, that of a prepared one is not known to the server, and one in the
    future of the server's clock is wrong, since the clock was set back: these are waited for.

    Raises:
        StoreBusy: one whose beginning is not known has not ended.
    """
    asked_monotonic = time.monotonic()
    asked_at: datetime = session.value("select clock_timestamp()")
    found = session.rows(_Open, _OPEN)
    ahead = {one.transaction: one for one in found if one.is_ahead}
    hidden = {one.transaction: one for one in found if one.began_at is None and not one.is_ahead}
    _wait_until_ended(session, ahead, _OPEN_STILL, patience_seconds, _AHEAD_STEP)
    _wait_until_ended(session, hidden, _OPEN_STILL, patience_seconds, _HIDDEN_STEP)
    # after the others: what was open above may be prepared now
    prepared = {one.transaction: one for one in session.rows(_Open, _PREPARED)}
    _wait_until_ended(session, prepared, _PREPARED_STILL, patience_seconds, _PREPARED_STEP)
    oldest = min((one for one in found if one.began_at is not None), key=lambda one: one.began_at or asked_at, default=None)
    if oldest is None or oldest.began_at is None or oldest.began_at >= asked_at:
        return OpenSince(asked_at, None, asked_at, asked_monotonic)
    return OpenSince(oldest.began_at, f"store {session.store}: {oldest.who}", asked_at, asked_monotonic)


class _Open(NamedTuple):
    """Attributes: began_at: None: not known; is_ahead: since its beginning is in the future."""

    transaction: str
    began_at: datetime | None
    who: str
    is_ahead: bool


_OPEN = """
select l.virtualxid as transaction, case when not b.is_ahead then a.xact_start end as began_at, format(
        '%s (pid %s, login %s%s)', coalesce(nullif(a.application_name, ''), 'a session'), a.pid, a.usename,
        case when b.is_ahead then to_char(a.xact_start at time zone 'UTC', '", began at "YYYY-MM-DD HH24:MI:SS" UTC"') end
    ) as who, b.is_ahead
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
cross join lateral (select coalesce(a.xact_start > clock_timestamp(), false) as is_ahead) b
where l.locktype = 'virtualxid' and l.granted and a.datname = current_database() and a.pid <> pg_catalog.pg_backend_pid()
    and a.usesysid is not null and a.backend_type is distinct from 'parallel worker'
"""
"""Each session in a transaction holds this lock, whatever the login may see of it. Autovacuum has no login."""

_OPEN_STILL = """
select l.virtualxid from pg_catalog.pg_locks l where l.locktype = 'virtualxid' and l.granted and l.virtualxid = any(%s)
"""

_MESSAGE_TABLES = ("relaybox.outbox", "relaybox_internal.adopted_row", "relaybox_internal.unmapped_row")
"""A transaction that has sent a message, or let one wait, has a lock on one of them."""

_PREPARED = f"""
select h.name as transaction, null::timestamptz as began_at,
    format('%s (login %s, prepared at %s UTC)', h.name, h.login, h.since) as who, false as is_ahead
from ({LOCK_HOLDERS.replace("%%", "%")} and p.gid is not null
    and l.relation in ({", ".join(f"'{table}'::regclass" for table in _MESSAGE_TABLES)})) h
"""  # noqa: S608

_PREPARED_STILL = """
select n.name from pg_catalog.pg_prepared_xacts p
cross join lateral (select 'prepared transaction ' || quote_literal(p.gid)) n (name)
where p.database = current_database() and n.name = any(%s)
"""

_HIDDEN_STEP = (
    "Since when they are open is hidden from this login, so it waits until they end. "
    "Grant it pg_read_all_stats (docs/logins.md), or end them."
)
_AHEAD_STEP = (
    "They began in the future of the server's clock: it was ahead then, and was set back. How old they are is not known, so it waits until "
    "they end. End them: select pg_terminate_backend(PID)"
)
_PREPARED_STEP = "The server does not tell when it began. Commit it or roll it back: relaybox doctor shows the statement."


def _wait_until_ended(session: StoreSession, waited: dict[str, _Open], still: str, patience_seconds: float, step: str) -> None:
    deadline = time.monotonic() + patience_seconds
    while waited:
        left = set(session.values(still, list(waited)))
        waited = {name: one for name, one in waited.items() if name in left}
        if waited and time.monotonic() >= deadline:
            names = ", ".join(one.who for one in list(waited.values())[:5])
            raise errors.StoreBusy(
                f"store {session.store}: {len(waited)} open transactions may still commit a reference to a payload: {names}. "
                "Nothing was removed.",
                next_step=step,
            )
        if waited:
            time.sleep(_POLL_SECONDS)


def read_references(session: StoreSession) -> Iterator[StoreReference]:
    """All references of a store, in the session's transaction. A message may be given twice; none is left out that is there all the time.

    Within a store messages go from the tables of the first statement to those of the second, and never back while nothing is dropped.

    Raises:
        CollectionRefused: the references of a detached segment are not recorded.
    """
    session.refuse(_NOT_LISTED, kind=errors.CollectionRefused)
    session.set_local({"enable_seqscan": "on"})  # of most segments no message refers to a file: no index leads to those that do
    for query in (_WAITING, _KEPT):
        yield from _fetch(session, query)


def _fetch(session: StoreSession, query: str) -> Iterator[StoreReference]:
    with session.translating(), session.connection.cursor(name="relaybox_payloads") as cursor:
        cursor.itersize = _ROWS_PER_FETCH
        cursor.execute(query)
        for row in cursor:
            yield StoreReference(*row)


_MEMBERS = """
{0} ->> 'place', {0} ->> 'ref', {0} ->> 'digest',
case when jsonb_typeof({0} -> 'bytes') = 'number' and ({0} ->> 'bytes') ~ '^[0-9]{{1,18}}$' then ({0} ->> 'bytes')::bigint end
"""
_OF_HEADERS = _MEMBERS.format("(headers -> 'relaybox-payload')")

_NOT_LISTED = """
select format(
        'positions %s to %s of %s were detached by an earlier version. Which payloads they need is not recorded. Nothing was removed.',
        min(d.first), max(d.last), i.hop
    ) as told,
    format('Run: relaybox attach %s %s. The next retention detaches them again, and records it.', s.store, i.hop) as next_step
from relaybox_internal.detached_segment d
join relaybox_internal.hop_in i on i.log_id = d.log_id
cross join relaybox_internal.store s
where d.state = 'detached' and not d.payloads_listed
group by i.hop, s.store order by i.hop limit 1
"""

_WAITING = f"""
select format('backlog of table %s', a.table_name) as held_in, w.row_number as position, {_OF_HEADERS}
from relaybox_internal.adopted_row w join relaybox_internal.adopted_table a using (adoption_id)
where w.headers ? 'relaybox-payload'
union all
select format('rows of table %s that are set aside', a.table_name), u.unmapped_id, null, f.name, null, null
from relaybox_internal.unmapped_row u join relaybox_internal.adopted_table a using (adoption_id)
cross join lateral (
    select (regexp_matches(u.content, '[0-9]{{8}}T[0-9]{{6}}Z-[0-9a-f]{{32}}', 'g'))[1] as name
) f
union all
select format('trial of derivation %s', t.trial_id), m.seq, {_OF_HEADERS}
from relaybox_internal.derivation_trial_message m join relaybox_internal.derivation_trial t using (trial_id)
where m.headers ? 'relaybox-payload'
union all
select format('detached from the log of %s', i.hop), p.log_position, {_MEMBERS.format("p.reference")}
from relaybox_internal.detached_payload p
join relaybox_internal.detached_segment d on d.log_id = p.log_id and p.log_position between d.first and d.last
join relaybox_internal.hop_in i on i.log_id = p.log_id
where d.state = 'detached'
"""  # noqa: S608

_KEPT = f"""
select 'outbox' as held_in, o.seq as position, {_OF_HEADERS}
from relaybox_internal.sent_rows o where o.headers ? 'relaybox-payload'
union all
select format('log of %s', i.hop), l.log_position, {_OF_HEADERS}
from relaybox_internal.log l join relaybox_internal.hop_in i using (log_id) where l.headers ? 'relaybox-payload'
"""  # noqa: S608
