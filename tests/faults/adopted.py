"""Tables of an application that are adopted in place of the outbox: what the producers of such a site write into.

`app.plain` and `app.parted` are adopted before the first message. `app.late` is adopted with its backlog while faults strike: its rows
wait in the table first, and then behind the backlog. Rows of `app.odd` are unmapped until `relaybox adopt --send-unmapped`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from relaybox.adoption import adopting
from relaybox.adoption.adopting import adopt_table, send_unmapped, unadopt_table
from relaybox.adoption.tables import list_defects
from relaybox.routes import Store
from relaybox.routes.adopt_rules import parse_map_options
from relaybox.stores.opening import opened_store

LATE, ODD = "app.late", "app.odd"

COLUMNS = ("topic", "sent_by", "payload", "key", "headers")
_MAP = {"message_id": "none", "topic": "topic", "sender": "sent_by", "payload": "payload", "key": "key", "headers": "headers"}
ADOPT: Mapping[str, Mapping[str, str]] = {"app.plain": _MAP, "app.parted": _MAP, LATE: _MAP}
"""The key `adopt` of the store where the producers write. What app.odd is mapped to, its commands say."""

_TABLE = "(id bigint generated always as identity primary key, topic text, sent_by text, payload text, key text, headers jsonb)"

MAKE_TABLES = f"""
create schema app;
create table app.plain {_TABLE};
create table app.late {_TABLE};
create table app.odd {_TABLE};
alter table app.odd add column wrong text;
create sequence app.turn;
create table app.parted (
    topic text, sent_by text, payload text, key text, headers jsonb, part bigint not null default mod(nextval('app.turn'), 3)
) partition by list (part);
create table app.parted_0 partition of app.parted for values in (0);
create table app.parted_1 partition of app.parted for values in (1);
create table app.parted_2 (
    headers jsonb, gone text, part bigint not null default 2, key text, payload text, sent_by text, topic text
);
alter table app.parted_2 drop column gone;
alter table app.parted attach partition app.parted_2 for values in (2);
"""
"""One partition has its columns in another order."""

INSERT_ODD = "insert into app.odd (topic, sent_by, payload) values ('flights', 'KL', %s)"
"""Unmapped while the topic is mapped to the column `wrong`."""


@dataclass(frozen=True)
class Target:
    """Where a producer inserts.

    Attributes:
        tables: in turn, one for each statement.
        columns: those of topic, sender, payload, key and headers.
        order_group: G5 holds among the messages of a group. Rows of a backlog wait while those of other tables pass them.
        then: a statement of the same transaction after each insert, with the sender as `%s`.
    """

    tables: tuple[str, ...] = ("relaybox.outbox",)
    columns: tuple[str, ...] = ("topic", "sender", "payload", "key", "headers")
    order_group: str = "outbox"
    then: str = ""


OUTBOX = Target()

TARGETS: Mapping[str, Target] = {
    "UA": Target(("app.plain",), COLUMNS, then="delete from app.plain where sent_by = %s"),
    "BA": Target(("app.parted", "app.parted_2"), COLUMNS),
    "LH": Target((LATE,), COLUMNS, order_group=LATE),
}
"""Of the producers of the workload. The rows of one are gone when their transaction commits."""

WAITING_SENDER = "LH"
"""Its rows wait in app.late."""

COMMANDS = ("adopt", "send_unmapped", "unadopt")
"""What reaches failpoints of adoption. The first and the last are about app.late, the other one is about app.odd."""


def command_of(failpoint: str) -> str:
    """The command that reaches a failpoint; empty: none of these."""
    step = failpoint.split(".", maxsplit=1)[0]
    return next((command for command in COMMANDS if step == command or step.startswith(f"{command}_")), "")


def run_command(command: str, store: Store) -> None:
    """Runs one of COMMANDS to its end; a backlog is moved two messages at a time."""
    if command == "adopt":
        with _two_at_a_time():
            adopt_table(store, LATE, with_backlog=True)
    elif command == "send_unmapped":
        send_unmapped(store, ODD)
    else:
        unadopt_table(store, LATE)


@contextmanager
def _two_at_a_time() -> Iterator[None]:
    usual, adopting.MOVED_ROWS = adopting.MOVED_ROWS, 2
    try:
        yield
    finally:
        adopting.MOVED_ROWS = usual


def adopt_first_tables(store: Store) -> None:
    """Those that are adopted before the first message."""
    for table in ("app.plain", "app.parted"):
        adopt_table(store, table)


def adopt_odd(store: Store, *, is_right: bool) -> None:
    """Adopts app.odd, with a map by which its rows can be messages, or can't."""
    mapped = parse_map_options(["message_id=none", f"topic={'topic' if is_right else 'wrong'}", "sender=sent_by"])
    adopt_table(store, ODD, mapped=mapped, on_unmapped="set_aside")


def leftovers(store: Store) -> list[str]:
    """What must not be there when every table is adopted and everything has moved, such as rows that wait or are unmapped."""
    with opened_store(store, application_name="relaybox test") as session:
        found = [f"{one.table_name}: {one.problem}" for one in list_defects(session)]
        session.rollback()
    return found
