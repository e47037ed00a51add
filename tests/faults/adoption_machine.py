"""The machine of changes and restores, in which an application also writes into two tables that are adopted, changed and let go.

The application's own log is the reference: a row is a message if its table was adopted when it was inserted, or if it was there when
the table was adopted with its backlog. Nothing else may be in the outbox.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from relaybox import errors
from relaybox.adoption import adopting
from relaybox.adoption.adopting import adopt_table, send_unmapped, unadopt_table
from relaybox.routes import load_routes
from relaybox.routes.adopt_rules import parse_map_options
from tests.faults.change_machine import RESTORES_AT_MOST, ChangeMachine
from tests.faults.changes import BOTH, killed_after
from tests.faults.conservation import Breach, Sent
from tests.faults.restores import RESTORES
from tests.faults.stores import UNDISTURBED

MAKE_TABLES = """
create schema app;
create table app.plain (id bigint generated always as identity primary key, topic text, payload text, moment bigint);
create sequence app.turn;
create table app.parted (
    topic text, payload text, moment bigint, part bigint not null default mod(nextval('app.turn'), 2)
) partition by list (part);
create table app.parted_0 partition of app.parted for values in (0);
alter table app.parted_0 alter part set default 0;
create table app.parted_1 (payload text, part bigint not null default 1, topic text, moment bigint);
alter table app.parted attach partition app.parted_1 for values in (1);
"""
PARTITIONS_AT_MOST = 4
COMMAND_STATEMENTS = 45
"""About as many as `relaybox adopt` sends for a small backlog."""
NO_TOPIC = "not one"

which_table = st.sampled_from(["plain", "parted"])
some = st.integers(1, 5)
dies = st.none() | st.integers(0, COMMAND_STATEMENTS)


@dataclass
class Part:
    """A partition, or a table that was one. `sends`: of rows that are inserted by its own name; `payload`: the column."""

    sends: bool
    payload: str = "payload"
    is_attached: bool = True


@dataclass
class Table:
    """What the application knows of a table, and what was said of it to Relaybox.

    Attributes:
        name: at present, with its schema.
        payload: the column that is the payload.
        state: none, backlog or sending.
        on_unmapped: fail or set_aside.
        rows: committed while it was not adopted, and kept in the table: they are messages if it is adopted with its backlog.
        unmapped: payloads of rows that were set aside, with the column that the payload was in.
        parts: by name.
        more: columns that the map does not name.
        adoptions: how often it was adopted: G5 holds among the messages of one adoption.
        waiting: messages that may be behind a backlog.
    """

    name: str
    payload: str = "payload"
    state: str = "none"
    on_unmapped: str = "fail"
    rows: list[Sent] = field(default_factory=list)
    unmapped: list[tuple[str, str]] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)
    adoptions: int = 0
    waiting: set[str] = field(default_factory=set)


class AdoptionMachine(ChangeMachine):
    """A third producer, whose tables are adopted; on-call engineers who adopt, and end it, and are killed while they do."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: dict[str, Table] = {}
        self.open_rows: tuple[Any, str, list[tuple[str, str, int]], bool] | None = None

    @initialize(batch_rows=st.sampled_from([1, 2, 3, 5]), both=st.booleans())
    def build(self, batch_rows: int, both: bool) -> None:
        super().build(batch_rows, both)
        self.world.query("airline", MAKE_TABLES)
        self.tables = {
            "plain": Table("app.plain"),
            "parted": Table("app.parted", parts={"app.parted_0": Part(False), "app.parted_1": Part(False)}),
        }
        self.stack.callback(self._end_open_rows)

    # the application

    @rule(which=which_table, count=some, topics=st.sampled_from([("flights",), ("weather",), BOTH]), commits=st.booleans())
    def insert(self, which: str, count: int, topics: tuple[str, ...], commits: bool = True) -> None:
        """One transaction, with one statement per topic in turn."""
        with self.world.session() as session:
            rows = self._insert_rows(session, self.tables[which].name, self.tables[which].payload, count, topics)
            if commits:
                session.commit()
                self._rows_committed(which, rows, is_sent=self.tables[which].state != "none")

    @precondition(lambda self: self.tables)
    @rule(number=st.integers(0, PARTITIONS_AT_MOST), count=some)
    def insert_into_a_part(self, number: int, count: int) -> None:
        """By the name of a partition, or of a table that was one: sent if it has the trigger."""
        table = self.tables["parted"]
        name = sorted(table.parts)[number % len(table.parts)]
        part = table.parts[name]
        with self.world.session() as session:
            if part.sends and part.payload != table.payload:
                with pytest.raises(psycopg2.Error, match="and lacks its column") as refused:
                    self._insert_rows(session, name, part.payload, count, ("flights",))
                assert refused.value.pgcode == "RB045"
                return
            rows = self._insert_rows(session, name, part.payload, count, ("flights",))
            session.commit()
        if part.is_attached or part.sends:
            self._rows_committed("parted", rows, is_sent=part.sends)

    @rule(which=which_table, count=some)
    def insert_odd_rows(self, which: str, count: int) -> None:
        """Rows whose topic is none: the statement fails, or they are set aside; or the table is not adopted, and nobody cares."""
        table = self.tables[which]
        with self.world.session() as session:
            if table.state != "none" and table.on_unmapped == "fail":
                with pytest.raises(psycopg2.Error) as refused:
                    self._insert_rows(session, table.name, table.payload, count, (NO_TOPIC,))
                assert refused.value.pgcode == "RB045"
                return
            rows = self._insert_rows(session, table.name, table.payload, count, (NO_TOPIC,))
            session.commit()
        if table.state != "none":
            table.unmapped += [(payload, table.payload) for payload, _, _ in rows]
        else:
            self.world.query("airline", f"delete from {table.name} where topic = %s", NO_TOPIC)

    @precondition(lambda self: self.open_rows is None)
    @rule(which=which_table, count=some)
    def hold_rows_open(self, which: str, count: int) -> None:
        connection = psycopg2.connect(service="airline", options=UNDISTURBED)
        table = self.tables[which]
        rows = self._insert_rows(connection, table.name, table.payload, count, BOTH)
        self.open_rows = (connection, which, rows, table.state != "none")

    @precondition(lambda self: self.open_rows is not None)
    @rule()
    def end_open_rows(self) -> None:
        self._end_open_rows()

    @rule(
        which=which_table, what=st.sampled_from(["update {0} set topic = topic", "delete from {0}", "update {0} set {1} = {1}"])
    )
    def update_or_delete(self, which: str, what: str) -> None:
        """Messages are of rows as they were inserted; what is gone before its table is adopted with its backlog is none."""
        table = self.tables[which]
        self.world.query("airline", what.format(table.name, table.payload))
        if what.startswith("delete"):
            table.rows = []

    # what a migration of the application changes

    def _has_no_writer(self) -> bool:
        return self.open_rows is None

    @precondition(_has_no_writer)
    @rule(which=which_table)
    def rename_table(self, which: str) -> None:
        table = self.tables[which]
        name = f"{which}_{next(self.moments)}"
        self._migrate(f"alter table {table.name} rename to {name}")
        table.name = f"app.{name}"

    @precondition(_has_no_writer)
    @rule(which=which_table)
    def rename_payload(self, which: str) -> None:
        table = self.tables[which]
        name = f"payload_{next(self.moments)}"
        self._migrate(f"alter table {table.name} rename column {table.payload} to {name}")
        table.payload = name
        for part in table.parts.values():
            part.payload = name if part.is_attached else part.payload

    @precondition(_has_no_writer)
    @rule(which=which_table, default=st.sampled_from(["", " default 7", " generated always as (moment + 1) stored"]))
    def add_column(self, which: str, default: str) -> None:
        table = self.tables[which]
        name = f"more_{next(self.moments)}"
        self._migrate(f"alter table {table.name} add column {name} bigint{default}")
        table.more.append(name)

    @precondition(lambda self: self.open_rows is None and any(table.more for table in self.tables.values()))
    @rule(which=which_table)
    def drop_column(self, which: str) -> None:
        table = self.tables[which]
        if table.more:
            self._migrate(f"alter table {table.name} drop column {table.more.pop()}")

    @precondition(_has_no_writer)
    @rule(which=which_table)
    def retype_payload(self, which: str) -> None:
        """Refused by the way; done between release_columns() and take_columns(), in one transaction."""
        table = self.tables[which]
        retype = f"alter table {table.name} alter column {table.payload} type varchar, alter column {table.payload} type text"
        if table.state == "none":
            self._migrate(retype.split(",", maxsplit=1)[0])
            self._migrate(f"alter table {table.name} alter column {table.payload} type text")
            return
        with pytest.raises(psycopg2.Error, match="message_of_row"):
            self._migrate(retype.split(",", maxsplit=1)[0])
        release, take = (f"select relaybox_internal.{name}_columns('{table.name}')" for name in ("release", "take"))
        self._migrate(
            release,
            f"alter table {table.name} alter column {table.payload} type varchar",
            f"alter table {table.name} alter column {table.payload} type text",
            take,
        )

    @precondition(lambda self: self.open_rows is None and len(self.tables["parted"].parts) < PARTITIONS_AT_MOST)
    @rule(count=st.integers(0, 3))
    def attach_partition(self, count: int) -> None:
        """A table with rows of its own, which nobody has sent. Its own name sends nothing until `adopt` has run."""
        table, number = self.tables["parted"], next(self.moments)
        name = f"app.part_{number}"
        self._migrate(
            f"create table {name} (like {table.name} including defaults including generated)",
            f"alter table {name} alter part set default {number}",
        )
        with self.world.session() as session:
            rows = self._insert_rows(session, name, table.payload, count, ("flights",))
            session.commit()
        self._migrate(f"alter table {table.name} attach partition {name} for values in ({number})")
        table.parts[name] = Part(sends=False, payload=table.payload)
        self._rows_committed("parted", rows, is_sent=False)

    @precondition(lambda self: self.open_rows is None and sum(p.is_attached for p in self.tables["parted"].parts.values()) > 2)
    @rule(number=st.integers(0, PARTITIONS_AT_MOST))
    def detach_partition(self, number: int) -> None:
        """One that was attached; its rows are sent as before. Those of before are no rows of the table any more."""
        table = self.tables["parted"]
        names = sorted(name for name, part in table.parts.items() if part.is_attached and "part_" in name)
        if names:
            name = names[number % len(names)]
            here = {payload for (payload,) in self.world.query("airline", f"select {table.payload} from {name}")}
            self._migrate(f"alter table {table.name} detach partition {name}")
            table.parts[name].is_attached = False
            table.rows = [row for row in table.rows if row.payload not in here]

    # who adopts

    @rule(which=which_table, with_backlog=st.booleans(), sets_aside=st.booleans(), after=dies)
    def adopt(self, which: str, with_backlog: bool, sets_aside: bool, after: int | None = None) -> None:
        """The map is that of now. Of rows that were sent before, the application leaves none for a backlog to send again."""
        table = self.tables[which]
        if with_backlog and table.state == "none":
            kept = [row.payload for row in table.rows]
            self.world.query("airline", f"delete from {table.name} where not {table.payload} = any(%s)", kept)
        if with_backlog and table.state != "none" and not self._has_backlog(which):
            with_backlog = False  # refused: test_adopt_backlog.py
        command = Adopting(self.world.path, table.name, table.payload, with_backlog, sets_aside)
        if self.open_rows is not None and self.open_rows[1] == which:
            with _impatient(), pytest.raises(errors.StoreBusy):
                _adopt(command)
            return
        if after is None:
            _adopt(command)
        else:
            killed_after(after, _adopt, command)
        self._note_adoption(which)

    @rule(which=which_table, after=dies)
    def unadopt(self, which: str, after: int | None = None) -> None:
        """What is unmapped is given up."""
        table = self.tables[which]
        if self.open_rows is not None and self.open_rows[1] == which and table.state != "none":
            with _impatient(), pytest.raises(errors.StoreBusy):
                _unadopt(self.world.path, table.name)
            return
        if after is None:
            _unadopt(self.world.path, table.name)
        else:
            killed_after(after, _unadopt, self.world.path, table.name)
        self._note_adoption(which)

    @precondition(lambda self: self.open_rows is None and any(table.unmapped for table in self.tables.values()))
    @rule(which=which_table, after=dies)
    def send_what_is_unmapped(self, which: str, after: int | None = None) -> None:
        """With a map in which the topic is always the same; then with the usual one again."""
        table = self.tables[which]
        if table.state == "none":
            return
        sets_aside = table.on_unmapped == "set_aside"
        _adopt(Adopting(self.world.path, table.name, table.payload, sets_aside=sets_aside, topic="'flights'"))
        if after is None:
            _send_unmapped(self.world.path, table.name)
        else:
            killed_after(after, _send_unmapped, self.world.path, table.name)
        left = self._count("relaybox_internal.unmapped_row", which)
        sendable = [payload for payload, column in table.unmapped if column == table.payload]
        if left != len(table.unmapped):
            assert left == len(table.unmapped) - len(sendable), (left, table.unmapped)
            table.unmapped = [one for one in table.unmapped if one[1] != table.payload]
            for payload in sendable:
                moment = next(self.moments)
                self.account.committed(Sent(payload, "flights", moment, moment, order_group=payload))
        _adopt(Adopting(self.world.path, table.name, table.payload, sets_aside=sets_aside))
        self._note_adoption(which)

    # restores

    @precondition(lambda self: self.backup is None or self.account.restored)
    @rule()
    def back_up(self) -> None:
        """Without a backlog that waits: it would be sent again by a store that goes back before it was moved."""
        self._end_open_rows()
        for which in self.tables:
            self._finish_backlog(which)
        super().back_up()
        self.tables_then = copy.deepcopy(self.tables)

    @precondition(lambda self: self.backup is not None and self.account.restored < RESTORES_AT_MOST)
    @rule(
        stores=st.sampled_from(RESTORES),
        count=st.integers(0, 6),
        topics=st.sampled_from([BOTH, ("flights",), ("weather",)]),
        same_timeline=st.booleans(),
    )
    def restore(self, stores: tuple[str, ...], count: int, topics: tuple[str, ...] = BOTH, same_timeline: bool = False) -> None:
        self._end_open_rows()
        before = self.account.restored
        if "airline" in stores:
            for which in self.tables:
                self._finish_backlog(which)
        kept = self.tables
        if "airline" in stores:
            self.tables = copy.deepcopy(self.tables_then)
        super().restore(stores, count, topics, same_timeline)
        if self.account.restored == before:
            self.tables = kept

    # what always holds

    @invariant()
    def nothing_is_invented(self) -> None:
        """Also no row of a table that was not adopted when it was inserted."""
        if self.world is not None and self.tables:
            invented = sorted(set(self.account.seen.outbox) - self.account.sent.keys())
            if invented:
                raise Breach([f"G1: {len(invented)} messages are in the outbox that nobody sent: {invented[:5]}"])

    def require_nothing_lost(self) -> None:
        self.account.waiting = set().union(*(table.waiting for table in self.tables.values()))
        super().require_nothing_lost()

    def finish(self) -> None:
        self._end_open_rows()
        for which, table in self.tables.items():
            self._finish_backlog(which)
            _unadopt(self.world.path, table.name)
        super().finish()
        self.nothing_is_invented()
        left = self.world.query("airline", "select problem from relaybox_internal.list_adoption_defects()")
        assert left == [], left

    # what is known of it

    def _insert_rows(
        self, session: Any, name: str, payload_column: str, count: int, topics: tuple[str, ...]
    ) -> list[tuple[str, str, int]]:
        rows = []
        with session.cursor() as cursor:
            for number in range(count):
                topic = topics[number % len(topics)]
                payload, moment = f"{topic[0]}{next(self.numbers)}", next(self.moments)
                cursor.execute(
                    f"insert into {name} (topic, {payload_column}, moment) values (%s, %s, %s)", (topic, payload, moment)
                )
                rows.append((payload, topic, moment))
        return rows

    def _rows_committed(self, which: str, rows: list[tuple[str, str, int]], *, is_sent: bool) -> None:
        moment, table = next(self.moments), self.tables[which]
        made = [Sent(payload, topic, inserted, moment) for payload, topic, inserted in rows]
        if is_sent:
            self._are_messages(which, made)
        else:
            table.rows += made

    def _are_messages(self, which: str, rows: list[Sent]) -> None:
        table = self.tables[which]
        for one in rows:
            self.account.committed(replace(one, order_group=f"{which} {table.adoptions}"))
        if table.state == "backlog":
            table.waiting |= {one.payload for one in rows}

    def _end_open_rows(self) -> None:
        if self.open_rows is not None:
            connection, which, rows, is_sent = self.open_rows
            self.open_rows = None
            connection.commit()
            connection.close()
            self._rows_committed(which, rows, is_sent=is_sent)

    def _end_open(self) -> None:
        self._end_open_rows()
        super()._end_open()

    def _note_adoption(self, which: str) -> None:
        """What came of a command, which may have been killed: the store says whether the table is adopted, and nothing of its rows."""
        table = self.tables[which]
        found = self.world.query(
            "airline", f"select state, on_unmapped, backlog_count from relaybox_internal.adopted_table {self._own(which)}"
        )
        before, table.state = table.state, found[0][0] if found else "none"
        if found:
            table.on_unmapped = found[0][1]
        if before == "none" and table.state != "none":
            table.adoptions += 1
            if found[0][2] is not None:
                self._are_messages(which, table.rows)
            table.rows = []
        if before != "none" and table.state == "none":
            table.unmapped = []
        if table.state != "backlog":
            table.waiting = set()
        for name, part in table.parts.items():
            trigger = "select count(*) from pg_trigger where tgrelid = %s::regclass and tgname = 'relaybox_adopted'"
            part.sends = bool(self.world.value("airline", trigger, name))

    def _own(self, which: str) -> str:
        return f"where relaybox_internal.adopted_relation(adoption_id) = '{self.tables[which].name}'::regclass"

    def _count(self, relation: str, which: str) -> int:
        query = f"select count(*) from {relation} where adoption_id in (select adoption_id from relaybox_internal.adopted_table {self._own(which)})"
        return int(self.world.value("airline", query))

    def _has_backlog(self, which: str) -> bool:
        query = f"select backlog_count from relaybox_internal.adopted_table {self._own(which)}"
        return self.world.value("airline", query) is not None

    def _finish_backlog(self, which: str) -> None:
        table = self.tables[which]
        if table.state == "backlog":
            _adopt(Adopting(self.world.path, table.name, table.payload, sets_aside=table.on_unmapped == "set_aside"))
            self._note_adoption(which)

    def _migrate(self, *statements: str) -> None:
        with self.world.session() as session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            session.commit()


@dataclass(frozen=True)
class Adopting:
    """`relaybox adopt`, which moves three messages at a time."""

    path: Path
    table: str
    payload: str
    with_backlog: bool = False
    sets_aside: bool = False
    topic: str = "topic"

    def run(self) -> None:
        adopting.MOVED_ROWS = 3
        adopt_table(
            load_routes(self.path).stores["airline"],
            self.table,
            mapped=parse_map_options(["message_id=none", f"topic={self.topic}", "sender='app'", f"payload={self.payload}"]),
            on_unmapped="set_aside" if self.sets_aside else "fail",
            with_backlog=self.with_backlog,
            order_by=["moment"] if self.with_backlog else [],
        )


def _adopt(command: Adopting) -> None:
    command.run()


def _unadopt(path: Path, table: str) -> None:
    unadopt_table(load_routes(path).stores["airline"], table, drop_unmapped=True)


def _send_unmapped(path: Path, table: str) -> None:
    send_unmapped(load_routes(path).stores["airline"], table)


@contextmanager
def _impatient() -> Iterator[None]:
    """A command that is refused while a writer is open says so after one attempt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adopting, "_LOCK_ATTEMPTS", 1)
        yield
