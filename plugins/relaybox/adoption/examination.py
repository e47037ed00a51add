"""What adopting a table would do: what keeps it from being done, which rows can't be messages, and how the first ones would travel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from relaybox import errors
from relaybox.amounts import amount

if TYPE_CHECKING:
    from uuid import UUID

    from relaybox.adoption.tables import WantedAdoption
    from relaybox.stores.sessions.store_session import StoreSession

SHOWN_MESSAGES = 10
COMPARED_ROWS = 10_000
"""The first rows whose topics are compared with the routes."""

_NO_MESSAGES = ("row can't be a message", "rows can't be messages")

_UNROUTED = """
select p.topic
from relaybox_internal.preview_messages(%s::oid::regclass, %s, %s::jsonb, null, %s) p
where p.problem is null and p.topic <> all(array(
    select unnest(h.topics) from relaybox_internal.hop_out h where h.reads_log is null and h.retired_at is null
))
union select %s where %s <> all(array(
    select unnest(h.topics) from relaybox_internal.hop_out h where h.reads_log is null and h.retired_at is null
))
order by 1
"""


_USUAL_ORDER = """
select coalesce(
    relaybox_internal.adoption_order(%(table)s::oid::regclass),
    (
        select relaybox_internal.adoption_order(relaybox_internal.adopted_relation(b.adoption_id))
        from relaybox_internal.adoptions_below(%(table)s::oid::regclass) b (adoption_id)
        limit 1
    )
)
"""
"""A table that takes an adoption of a partition over may have no key: the partition has the usual order of its rows."""


class Obstacle(NamedTuple):
    """What the catalog says against an adoption (is_refusal), or what is worth knowing."""

    is_refusal: bool
    problem: str
    next_step: str


class UnmappedRows(NamedTuple):
    """Rows that can't be messages, for one reason; `first_rows` as JSON, shortened."""

    problem: str
    row_count: int
    first_rows: list[str]


class PreviewedMessage(NamedTuple):
    """A row as it would travel. `problem`: why it would not."""

    message_id: UUID | None
    topic: str | None
    sender: str | None
    key: str | None
    headers: Any
    payload: str | None
    payload_bytes: memoryview | None
    problem: str | None


@dataclass(frozen=True)
class Examination:
    """All that was found. `order`: the columns by which a backlog is ordered; empty: the table has none to order by."""

    obstacles: tuple[Obstacle, ...]
    order: tuple[str, ...]
    unmapped: tuple[UnmappedRows, ...]
    messages: tuple[PreviewedMessage, ...]

    @property
    def refusals(self) -> tuple[Obstacle, ...]:
        return tuple(one for one in self.obstacles if one.is_refusal)


def examine_adoption(session: StoreSession, wanted: WantedAdoption, *, order_by: Sequence[str] = ()) -> Examination:
    """Reads the catalog and each row of the table. Changes nothing. Rows are not read where something keeps the table from being adopted.

    Args:
        session: of the store, in its transaction.
        wanted: the table and its map.
        order_by: columns that order a backlog; without any the usual ones do.

    Raises:
        AdoptionRefused: the table has no such column to order by.
        StoreUnusable: a policy of the table hides rows from the login.
    """
    table, mapping = wanted.table, json.dumps(wanted.mapping)
    order = _choose_order(session, wanted, order_by)
    obstacles = session.rows(
        Obstacle,
        "select is_refusal, problem, next_step from relaybox_internal.list_adoption_obstacles(%s::oid::regclass, %s::jsonb, %s)",
        *(table.oid, mapping, wanted.on_unmapped == "set_aside"),
    )
    if any(one.is_refusal for one in obstacles):
        return Examination(tuple(obstacles), order, (), ())
    unmapped = session.rows(
        UnmappedRows,
        "select * from relaybox_internal.list_unmapped(%s::oid::regclass, %s, %s::jsonb)",
        *(table.oid, table.name, mapping),
    )
    obstacles += _note_unrouted(session, wanted)
    messages = session.rows(
        PreviewedMessage,
        "select * from relaybox_internal.preview_messages(%s::oid::regclass, %s, %s::jsonb, %s::text[], %s)",
        *(table.oid, table.name, mapping, list(order), SHOWN_MESSAGES),
    )
    return Examination(tuple(obstacles), order, tuple(unmapped), tuple(messages))


def _note_unrouted(session: StoreSession, wanted: WantedAdoption) -> list[Obstacle]:
    """That topics of the map or of the first rows are in no route that begins at the store."""
    parts = wanted.mapping["topic"].get("parts", [None])
    constant = "".join(parts) if all(isinstance(part, str) for part in parts) else None
    table = wanted.table
    topics = session.values(_UNROUTED, table.oid, table.name, json.dumps(wanted.mapping), COMPARED_ROWS, constant, constant)
    if not topics:
        return []
    shown = ", ".join(topics[:SHOWN_MESSAGES]) + (
        f" and {len(topics) - SHOWN_MESSAGES:,} more" if len(topics) > SHOWN_MESSAGES else ""
    )
    return [
        Obstacle(
            is_refusal=False,
            problem=f"no route that begins at {session.store} has {'topic' if len(topics) == 1 else 'topics'} {shown}: "
            "such messages stay in the outbox",
            next_step="Write it into the topics of a route in relaybox.yaml, and run: relaybox init",
        )
    ]


def _choose_order(session: StoreSession, wanted: WantedAdoption, order_by: Sequence[str]) -> tuple[str, ...]:
    unknown = [column for column in order_by if column not in wanted.table.columns]
    if unknown:
        raise errors.AdoptionRefused(
            f"store {session.store}: table {wanted.table.name} has no column {', '.join(unknown)} to order a backlog by.",
            next_step=f"Its columns: {', '.join(wanted.table.columns)}",
        )
    usual = session.value(_USUAL_ORDER, {"table": wanted.table.oid}) or []
    return tuple(dict.fromkeys([*order_by, *usual]))


def _end(row: str) -> str:
    return row if row.endswith("...") else f"{row}."


def refuse_obstacles(session: StoreSession, wanted: WantedAdoption, examination: Examination) -> None:
    """Raises AdoptionRefused with everything that keeps the table from being adopted, rows that can't be messages included."""
    problems = [f"{one.problem}. {one.next_step}" for one in examination.refusals]
    if wanted.on_unmapped == "fail":
        problems += [
            f"{amount(one.row_count, *_NO_MESSAGES)}: {one.problem}, such as {_end(one.first_rows[0])}"
            for one in examination.unmapped
        ]
    if not problems:
        return
    raise errors.AdoptionRefused(
        f"store {session.store}: table {wanted.table.name} can't be adopted, and nothing was changed: " + " | ".join(problems),
        next_step=(
            "Correct this and run it again."
            if examination.refusals
            else "Correct the rows or the map, or let such rows be set aside: --on-unmapped set_aside"
        ),
    )
