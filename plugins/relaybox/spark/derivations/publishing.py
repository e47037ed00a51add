"""Runs in a task of Spark: sends the messages of an attempt and acknowledges what they were derived from, in one transaction."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from relaybox.errors import DerivationFailed, RelayboxError
from relaybox.failpoints import reach
from relaybox.spark.derivations.source import SourceText
from relaybox.spark.frames.adbc_sessions import adbc_errors, open_cursor, primary_message, quote_text
from relaybox.spark.frames.numbered_rows import SENDING_SETTINGS, numbered_rows, one_row

CAUSE = "stream_position"
_TABLE = "relaybox_derived"
_OPTIONAL = {"topic": "text", "key": "text", "headers": "text", "payload": "text", "payload_bytes": "bytea"}


@dataclass(frozen=True)
class Sending:
    """What a task needs to send the messages of an attempt.

    Attributes:
        store: the libpq service of the store.
        route: whose messages they are.
        version: of the derivation.
        stream: what they were derived from.
        sender: of the messages.
        topics: of the route; a message without a column topic gets the first.
        derivation_id, attempt, token: in the ledger.
        first, last: the ends of the stream positions of the attempt.
        is_trial: the attempt is of a trial, whose number is the derivation_id: its messages go into the table of trials.
        text: of the source, which must be the same where the task runs; None: it need not.
    """

    store: str
    route: str
    version: int
    stream: str
    sender: str
    topics: tuple[str, ...]
    derivation_id: int
    attempt: int
    token: str
    first: int
    last: int
    is_trial: bool = False
    text: SourceText | None = None

    @property
    def attempts(self) -> str:
        """The ledger of the attempt, as names in SQL have it."""
        return "derivation_trial_attempt" if self.is_trial else "derivation_attempt"

    @property
    def is_this(self) -> str:
        """The condition for the attempt in that ledger."""
        number = "trial_id" if self.is_trial else "derivation_id"
        return f"a.{number} = {self.derivation_id} and a.attempt = {self.attempt}"


@dataclass(frozen=True)
class Published:
    """What an attempt has put into the outbox; `now` is false if another task of the same attempt has."""

    derived_count: int
    now: bool = True


def reports(sending: Sending, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: one row with what send() returned or raised, pickled, so that the driver gets an error of ours whole."""
    try:
        report: Published | RelayboxError = send(sending, batches)
    except RelayboxError as error:
        report = error
    yield pa.RecordBatch.from_pydict({"report": pa.array([pickle.dumps(report)], pa.binary())})


def send(sending: Sending, batches: Iterable[pa.RecordBatch]) -> Published:
    """Puts the rows into the outbox in their order, unless a task of this attempt has, and publishes the attempt.

    Those of a trial go into the table of trials in the same way, and nothing is sent.

    The rows go to the store as they come, by COPY into a temporary table of the session, so memory does not grow with them.
    The id of a message follows from route, version, the message that caused it, and its number among those of this cause.

    Raises:
        DerivationChanged: the text of the source was changed meanwhile, or is another one on this machine. Nothing is sent.
        DerivationFailed: the topic of a row is not of the route, or its cause is not of the attempt. Nothing is sent.
        LaneLost: a later attempt, or a later version, has ended this one. Nothing is sent.
        SenderRefused, NotSubscribed, StoreUnusable: the login may not send so, or the subscription has ended.
        Transient, Terminal: the store failed, or its outbox refuses a row. Nothing is sent.
    """
    rows = numbered_rows(batches)
    doing = f"publishing attempt {sending.attempt} of the derivation of route {sending.route}"
    with adbc_errors(sending.store, doing), open_cursor(sending.store, SENDING_SETTINGS, autocommit=False) as cursor:
        reach("derive.begin", None)
        if rows is not None:
            with _refused_rows(sending):
                cursor.adbc_ingest(_TABLE, rows, mode="create", temporary=True)
        reach("derive.copied", None)
        if sending.text is not None:  # all rows are made
            sending.text.require_unchanged(sending.route)
        attempt = f"{sending.derivation_id}, {sending.attempt}"
        (is_open,) = one_row(cursor, f"select relaybox_internal.lock_{sending.attempts}({attempt}, {quote_text(sending.token)})")
        if not is_open:
            published = f"select a.derived_count from relaybox_internal.{sending.attempts} a where {sending.is_this}"  # noqa: S608
            (count,) = one_row(cursor, published)
            return Published(count, now=False)
        count, first_seq, last_seq = 0, "null", "null"
        if rows is not None:
            _refuse_strays(cursor, sending, rows.schema.names)
            (expected,) = one_row(cursor, f"select count(*) from {_TABLE}")  # noqa: S608  our own name
            with _refused_rows(sending):
                count, first_seq, last_seq = one_row(cursor, _insert(sending, rows.schema.names))
            if count != expected:
                raise DerivationFailed(
                    f"store {sending.store}: {count} of {expected} derived messages of route {sending.route} were inserted: a trigger or "
                    "rule of others on relaybox.outbox drops the rest. Nothing was sent; relaybox doctor names it."
                )
            cursor.execute(f"drop table pg_temp.{_TABLE}")  # a pooler lends the session of the server to the next task
        reach("derive.inserted", None)
        if sending.is_trial:
            one_row(cursor, f"select relaybox_internal.finish_derivation_trial_attempt({attempt}, {count})")
        else:
            sent = f"{quote_text(sending.sender)}, {count}, {first_seq}, {last_seq}"
            one_row(cursor, f"select relaybox_internal.publish_derivation_attempt({attempt}, {sent})")
        reach("derive.committing", None)
        cursor.connection.commit()
        reach("derive.committed", None)
    return Published(count)


@contextmanager
def _refused_rows(sending: Sending) -> Iterator[None]:
    """Turns what the store says of a derived row into a failure of the function that returned it. Without the row: viewers read it.

    Raises:
        DerivationFailed: the outbox takes no such row, such as one without a payload.
    """
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        if (error.sqlstate or "")[:2] not in _OF_A_ROW:
            raise
        raise DerivationFailed(
            f"store {sending.store}: the outbox refuses a message that was derived from stream positions {sending.first} to "
            f"{sending.last}: {primary_message(error)} ({error.sqlstate}). Nothing was sent.",
            next_step="Let the function return one of payload and payload_bytes, no character NUL, and headers that are a JSON object; "
            "or set row_errors: dead_letter.",
        ) from error


_STRAY_CAUSES = f"""
    select min({CAUSE}), count(*) from {_TABLE}
    where ({CAUSE} <@ (select {{positions}} from relaybox_internal.{{attempts}} a where {{is_this}})) is not true
"""  # noqa: S608  our own names

_OF_A_ROW = ("22", "23")
"""Classes of SQLSTATE: data exceptions, and constraints of the outbox."""


def _refuse_strays(cursor: Any, sending: Sending, names: Sequence[str]) -> None:
    """Messages that no hop would move, or whose cause the attempt did not read."""
    if "topic" in names:
        known = ", ".join(quote_text(topic) for topic in sending.topics)
        query = f"select min(topic), count(*) from {_TABLE} where topic is null or topic not in ({known})"  # noqa: S608  quoted
        stray, count = one_row(cursor, query)
        if count:
            raise DerivationFailed(
                f"store {sending.store}: {count} derived messages of route {sending.route} have a topic that is not the route's, such "
                f"as {stray}. Nothing was sent.",
                next_step=f"Add it to topics of the route, run relaybox init, or return one of: {', '.join(sending.topics)}.",
            )
    if CAUSE in names:
        positions = (
            "int8range(a.first_stream_position, a.last_stream_position, '[]')" if sending.is_trial else "a.stream_positions"
        )
        strays = _STRAY_CAUSES.format(positions=positions, attempts=sending.attempts, is_this=sending.is_this)
        stray, count = one_row(cursor, strays)
        if count:
            raise DerivationFailed(
                f"store {sending.store}: {count} derived messages of route {sending.route} have a {CAUSE} such as {stray}, which is not "
                f"among {sending.first} to {sending.last}, those that the function got. Nothing was sent.",
                next_step=f"Let the function keep the column {CAUSE} as it is, or drop it where a message has no single cause.",
            )


def _insert(sending: Sending, names: Sequence[str]) -> str:
    """Of all rows of the temporary table into the outbox, or into the table of trials; gives their number, and their first and last seq."""
    values = {name: f"r.{name}" if name in names else f"null::{kind}" for name, kind in _OPTIONAL.items()}
    if "topic" not in names:
        values["topic"] = quote_text(sending.topics[0])
    identity = quote_text(f"derived\n{sending.route}\n{sending.version}\n")
    if CAUSE in names:
        number = f"row_number() over (partition by {CAUSE} order by n)"
        cause, told = f"r.{CAUSE}::text", f"'{CAUSE}', r.{CAUSE}"
    else:
        number = "n"
        cause, told = (
            f"'{sending.first}-{sending.last}'",
            f"'stream_positions', jsonb_build_array({sending.first}, {sending.last})",
        )
    into, number_of_trial = "relaybox.outbox (", ""
    if sending.is_trial:
        into, number_of_trial = "relaybox_internal.derivation_trial_message (trial_id, ", f"{sending.derivation_id}, "
    return f"""
    with messages as (
        insert into {into}message_id, topic, sender, key, headers, payload, payload_bytes)
        select {number_of_trial}
            substr(encode(sha256(convert_to({identity} || {cause} || E'\\n' || r.number, 'UTF8')), 'hex'), 1, 32)::uuid,
            {values["topic"]}, {quote_text(sending.sender)}, {values["key"]},
            coalesce(({values["headers"]})::jsonb, '{{}}') || jsonb_build_object('derived_from', jsonb_build_object(
                'stream', {quote_text(sending.stream)}::text, {told}, 'version', {sending.version}
            )),
            {values["payload"]}, {values["payload_bytes"]}
        from (select t.*, {number} as number from {_TABLE} t) r
        order by r.n
        returning seq
    )
    select count(*), min(seq), max(seq) from messages
    """  # noqa: S608  quoted, or our own names
