"""`relaybox bench adopt`: an insert into an adopted table beside the same insert into an equal table, and beside the outbox itself.

Eight sessions of pgbench insert the same event with Debezium's columns, each in one transaction, or 100 in one transaction (one round
trip). All use prepared statements and the same server, and commit durably. In its turns a logical replication slot reads
beside the adopted table, as a connector does. At last a table with rows is adopted with its backlog.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.adoption.adopting import adopt_table
from relaybox.amounts import amount
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.pgbench import SESSIONS, SIZES, Script, Sending, send
from relaybox.local.bench.produce import PAYLOAD
from relaybox.local.bench.report import spread, write_json
from relaybox.local.bench.rounds import WARM_UP, in_turn, shown_turns
from relaybox.local.bench.stores import SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import tree_cpu_seconds

_SLOT = "bench_connector"
_MAKE = """
create schema bench;
create table bench.plain (
    id uuid primary key default gen_random_uuid(), aggregatetype text not null, aggregateid text not null, type text not null,
    payload jsonb not null
);
create table bench.adopted (like bench.plain including all);
create table bench.aside (like bench.plain including all);
create table bench.read (like bench.plain including all);
create table bench.backlog (like bench.plain including all);
"""
_FILL_BACKLOG = """
insert into bench.backlog (aggregatetype, aggregateid, type, payload)
select 'orders', 'order-' || n, 'placed', %s::jsonb from generate_series(1, %s) n
"""

PLAIN, ADOPTED, OUTBOX, READ = "plain", "adopted", "outbox", "read"
_EVENT = f"(aggregatetype, aggregateid, type, payload) values ('orders', 'order-1', 'placed', '{PAYLOAD}')"
_MESSAGE = (
    f"(topic, sender, key, headers, payload) values ('orders', 'source', 'order-1', '{{\"type\": \"placed\"}}', '{PAYLOAD}')"
)
CONTESTANTS: Mapping[str, tuple[str, str]] = {
    PLAIN: ("table with Debezium's columns", f"insert into bench.plain {_EVENT}"),
    ADOPTED: ("the same, adopted", f"insert into bench.adopted {_EVENT}"),
    "aside": ("the same, on_unmapped: set_aside", f"insert into bench.aside {_EVENT}"),
    READ: ("adopted, beside a session that reads a slot", f"insert into bench.read {_EVENT}"),
    OUTBOX: ("relaybox.outbox itself", f"insert into relaybox.outbox {_MESSAGE}"),
}
"""Title, and the statement of one message."""


@dataclass(frozen=True)
class AdoptReport:
    """All measurements of one run, and in what circumstances they were made.

    Attributes:
        backlog_rows: of the table that was adopted with its backlog.
        locked_seconds: for how long writers were kept out of it.
        backlog_seconds: until all of it was in the outbox.
    """

    messages: int
    rounds: int
    environment: Mapping[str, Any]
    sendings: tuple[Sending, ...]
    backlog_rows: int
    locked_seconds: float
    backlog_seconds: float

    def rates(self, contestant: str, size: int) -> list[float]:
        """Messages per second, by round."""
        return [one.messages / one.seconds for one in self._of(contestant, size)]

    def cpu(self, contestant: str, size: int) -> list[float]:
        """CPU microseconds of the server for a message, by round."""
        return [one.cpu_seconds / one.messages * 1e6 for one in self._of(contestant, size)]

    def ratios(self, contestant: str, size: int) -> list[float]:
        """Rate over that of the plain table, by round."""
        return [a / b for a, b in zip(self.rates(contestant, size), self.rates(PLAIN, size), strict=True)]

    def _of(self, contestant: str, size: int) -> list[Sending]:
        return [one for one in sorted(self.sendings, key=lambda s: s.round) if (one.contestant, one.size) == (contestant, size)]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        others = [name for name in CONTESTANTS if name != PLAIN]
        return {
            **asdict(self),
            "ratios": {f"{name}/{PLAIN}, {size}": spread(self.ratios(name, size)) for name in others for size in SIZES},
        }


def run_bench_adopt(
    *, messages: int, rounds: int = 3, json_path: Path | None = None, console: Console | None = None
) -> AdoptReport:
    """Makes clusters, measures, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: the outbox has another number of messages than were inserted.
        Terminal, Transient: a store failed.
    """
    if messages < SESSIONS * max(SIZES) or rounds < 1:
        raise errors.ConfigurationError(
            f"bench adopt: messages must be {SESSIONS * max(SIZES)} or more, rounds 1 or more.",
            next_step="Run: relaybox bench adopt --help",
        )
    console = console or Console()
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        store = stores.new_route().source
        stores.query(SOURCE, _MAKE)
        for table in (ADOPTED, READ):
            adopt_table(store, f"bench.{table}")
        adopt_table(store, "bench.aside", on_unmapped="set_aside")
        sendings = tuple(_take_turns(stores, directory, messages, rounds, console))
        _count_messages(stores, messages, rounds)
        stores.query(SOURCE, _FILL_BACKLOG, PAYLOAD, messages)
        before = stores.query(SOURCE, "select extract(epoch from clock_timestamp())::float8")[0][0]
        adoption = adopt_table(store, "bench.backlog", with_backlog=True, order_by=["id"])
        after = stores.query(SOURCE, "select extract(epoch from clock_timestamp())::float8")[0][0]
        report = AdoptReport(
            *(messages, rounds, describe_environment(stores), sendings),
            backlog_rows=adoption.moved_count,
            locked_seconds=adoption.locked_seconds,
            backlog_seconds=after - before,
        )
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _take_turns(stores: BenchStores, directory: Path, messages: int, rounds: int, console: Console) -> Iterator[Sending]:
    names = list(CONTESTANTS)
    order = ((round_, (size, name)) for round_ in range(WARM_UP, rounds + 1) for size in SIZES for name in in_turn(names, round_))
    with shown_turns(order, console, title=lambda turn: f"{turn[1]}, {turn[0]}") as turns:
        for round_, (size, name) in turns:
            stores.query(SOURCE, "select relaybox_internal.ensure_outbox_segments()")
            stores.settle()
            script = Script(name, *CONTESTANTS[name], size)
            with _connector(is_there=name == READ):
                sending = send(
                    script,
                    directory,
                    round_=round_,
                    transactions=messages // SESSIONS // size,
                    cpu_seconds=lambda: tree_cpu_seconds(stores.clusters[SOURCE].pid or 0),
                )
            if round_ != WARM_UP:
                yield sending


@contextmanager
def _connector(*, is_there: bool) -> Iterator[None]:
    """A session that reads a logical replication slot again and again, as a connector does, and is done with all at the end."""
    if not is_there:
        yield
        return
    with closing(psycopg2.connect(service=SOURCE)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", (_SLOT,))
        ended = threading.Event()
        reader = threading.Thread(target=_read_slot, args=(cursor, ended))
        reader.start()
        try:
            yield
        finally:
            ended.set()
            reader.join()
            cursor.execute("select pg_drop_replication_slot(%s)", (_SLOT,))


def _read_slot(cursor: Any, ended: threading.Event) -> None:
    while not ended.wait(0.01):
        cursor.execute("select count(*) from pg_logical_slot_get_changes(%s, null, 10000)", (_SLOT,))


def _count_messages(stores: BenchStores, messages: int, rounds: int) -> None:
    """Each contestant but the plain table has sent what it was told to."""
    each = sum(messages // SESSIONS // size * SESSIONS * size for size in SIZES) * (rounds + 1)
    ((found,),) = stores.query(SOURCE, "select count(*) from relaybox.outbox")
    expected = each * (len(CONTESTANTS) - 1)
    if found != expected:
        raise errors.ContentDiffers(f"bench adopt: the outbox has {found:,} messages, {expected:,} were inserted.")


def print_report(report: AdoptReport, console: Console) -> None:
    """Prints rates, ratios and CPU times of all contestants, and the backlog."""
    figures = Table(
        "insert into",
        *(f"rate / plain\ntable,\n{size} in one:\nmedian\n(min to max)" for size in SIZES),
        *(f"CPU of the\nserver, us\na message,\n{size} in one" for size in SIZES),
        title=f"{amount(report.messages, 'message')} by {SESSIONS} sessions, {amount(report.rounds, 'round')}, medians",
        caption="In one: messages in one transaction. More of the rate and fewer microseconds (us) are better.",
    )
    for name, (title, _) in CONTESTANTS.items():
        figures.add_row(
            title,
            *("" if name == PLAIN else _spread(report.ratios(name, size)) for size in SIZES),
            *(f"{median(report.cpu(name, size)):.1f}" for size in SIZES),
        )
    console.print(figures)
    console.print(
        f"Backlog of {amount(report.backlog_rows, 'row')}: writers were kept out for {report.locked_seconds:.2f} s, "
        f"all was in the outbox after {report.backlog_seconds:.2f} s."
    )


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f}\n({min(ratios):.2f} to {max(ratios):.2f})"
