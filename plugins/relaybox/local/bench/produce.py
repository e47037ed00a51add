"""`relaybox bench produce`: an insert into the outbox beside an insert into an equal table without any machinery, and beside others.

Eight sessions of pgbench send the same message again and again, each in one transaction, or 100 in one transaction (one round trip).
All use prepared statements and the same server, and commit durably. Who measures last is the Python client: its `put`
beside the same insert by SQL, in one session.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.pgbench import SESSIONS, SIZES, Script, Sending, send
from relaybox.local.bench.report import spread, write_json
from relaybox.local.bench.rivals import PGMQ, PGQ
from relaybox.local.bench.rounds import WARM_UP, in_turn, shown_turns
from relaybox.local.bench.stores import SOURCE, TOPIC, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import tree_cpu_seconds
from relaybox.outbox import put

PAYLOAD = (
    '{"order": 17, "placed_at": "2026-01-01T00:00:17+00:00", "customer": "customer-17", "amount": 6.29, "currency": "EUR", '
    '"lines": [{"sku": "70efdf2ec9b086079795c442636b55fb", "quantity": 4}], "checksum": "1e2f0a2f5c0e9b7f4b6d0f2f8a4c3d21"}'
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "placed_at": {"type": "string", "maxLength": 40},
        "customer": {"type": "string", "pattern": "^customer-[0-9]+$"},
        "amount": {"type": "number", "minimum": 0},
        "currency": {"enum": ["EUR", "USD"]},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer", "minimum": 1}},
                "required": ["sku", "quantity"],
            },
        },
        "checksum": {"type": "string"},
    },
    "required": ["order", "customer", "lines"],
}
"""Of PAYLOAD: 10 values are looked at."""

_CHECKED_TOPIC = "checked-orders"
_TABLES = """
create schema bench;
create sequence bench.plain_seq as bigint cache 1;
create table bench.plain (like relaybox.outbox including defaults) partition by range (seq);
alter table bench.plain alter column seq set default nextval('bench.plain_seq'), add primary key (seq);
create table bench.plain_segment partition of bench.plain for values from (1) to (1000000000);
create table bench.plain_rest partition of bench.plain default;
create table bench.debezium_kept (
    id uuid primary key default gen_random_uuid(), aggregatetype text not null, aggregateid text not null, type text not null,
    payload jsonb not null
);
create table bench.debezium_deleted (like bench.debezium_kept including all);
"""
_INSERT_DEBEZIUM = (
    f"into bench.debezium_kept (aggregatetype, aggregateid, type, payload) values ('order', 'order-1', 'placed', '{PAYLOAD}')"
)
_COLUMNS = f"(topic, sender, key, payload) values ('orders', 'shop-1', 'order-1', '{PAYLOAD}')"


@dataclass(frozen=True)
class _Contestant:
    title: str
    statement: str
    makes: tuple[Callable[[], str | None], ...] = ()
    """The SQL that must be there first; None: it is not, and the contestant is left out."""
    outbox_checks: bool = False
    """The outbox has the trigger of schema_checks while it sends."""


PLAIN, OUTBOX = "plain", "outbox"
CONTESTANTS: Mapping[str, _Contestant] = {
    PLAIN: _Contestant("equal table without machinery", f"insert into bench.plain {_COLUMNS}"),
    OUTBOX: _Contestant("relaybox.outbox", f"insert into relaybox.outbox {_COLUMNS}"),
    "other-topic": _Contestant(
        "relaybox.outbox, which checks another topic", f"insert into relaybox.outbox {_COLUMNS}", outbox_checks=True
    ),
    "checked": _Contestant(
        "relaybox.outbox, which checks this topic",
        f"insert into relaybox.outbox {_COLUMNS.replace('orders', _CHECKED_TOPIC, 1)}",
        outbox_checks=True,
    ),
    "debezium-kept": _Contestant("outbox with Debezium's columns, kept", f"insert {_INSERT_DEBEZIUM}"),
    "debezium-deleted": _Contestant(
        "the same, deleted at once",
        "insert "
        + _INSERT_DEBEZIUM.replace("kept", "deleted")
        + " returning id;\ndelete from bench.debezium_deleted where id = :id",
    ),
    "pgmq": _Contestant(
        "pgmq.send", f"select pgmq.send('orders', '{PAYLOAD}'::jsonb)", (PGMQ.read, lambda: "select pgmq.create('orders')")
    ),
    "pgq": _Contestant(
        "pgq.insert_event (without C)",
        f"select pgq.insert_event('orders', 'placed', '{PAYLOAD}')",
        (PGQ.read, lambda: "select pgq.create_queue('orders')"),
    ),
}
PUTS = {"sql": "insert by SQL, Python", "put": "put() of the Python client"}
_INSERT = "insert into relaybox.outbox (topic, sender, key, payload) values (%s, %s, %s, %s) returning message_id"


@dataclass(frozen=True)
class ProduceReport:
    """All measurements of one run, and in what circumstances they were made."""

    messages: int
    rounds: int
    environment: Mapping[str, Any]
    left_out: tuple[str, ...]
    sendings: tuple[Sending, ...]

    def rates(self, contestant: str, size: int) -> list[float]:
        """Messages per second, by round."""
        return [one.messages / one.seconds for one in self._of(contestant, size)]

    def cpu(self, contestant: str, size: int) -> list[float]:
        """CPU microseconds of the server for a message, by round."""
        return [one.cpu_seconds / one.messages * 1e6 for one in self._of(contestant, size)]

    def ratios(self, contestant: str, baseline: str, size: int) -> list[float]:
        """Rate over the baseline's, by round."""
        return [a / b for a, b in zip(self.rates(contestant, size), self.rates(baseline, size), strict=True)]

    def _of(self, contestant: str, size: int) -> list[Sending]:
        return [one for one in sorted(self.sendings, key=lambda s: s.round) if (one.contestant, one.size) == (contestant, size)]

    @property
    def contestants(self) -> list[str]:
        return [name for name in CONTESTANTS if name not in self.left_out]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        pairs = [(name, PLAIN) for name in self.contestants if name != PLAIN] + [("put", "sql")]
        return {
            **asdict(self),
            "ratios": {
                f"{name}/{baseline}, {size}": spread(self.ratios(name, baseline, size))
                for name, baseline in pairs
                for size in SIZES
            },
        }


def run_bench_produce(
    *, messages: int, rounds: int = 3, json_path: Path | None = None, console: Console | None = None
) -> ProduceReport:
    """Makes clusters, measures, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: a contestant sent another number of messages than it was told to.
        Terminal, Transient: a store failed.
    """
    if messages < SESSIONS * max(SIZES) or rounds < 1:
        raise errors.ConfigurationError(
            f"bench produce: messages must be {SESSIONS * max(SIZES)} or more, rounds 1 or more.",
            next_step="Run: relaybox bench produce --help",
        )
    console = console or Console()
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        _make_route(stores, directory)
        left_out = _make_contestants(stores, console)
        sendings = tuple(_take_turns(_Place(stores, directory), left_out, messages, rounds, console))
        report = ProduceReport(messages, rounds, describe_environment(stores), left_out, sendings)
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


@dataclass(frozen=True)
class _Place:
    stores: BenchStores
    directory: Path

    def cpu_seconds(self) -> float:
        """Of the source's server until now, with the sessions that have ended."""
        return tree_cpu_seconds(self.stores.clusters[SOURCE].pid or 0)

    def check(self, *, is_on: bool) -> None:
        """The trigger of schema_checks, as if relaybox.yaml asked for it or did not."""
        self.stores.query(SOURCE, f"alter table relaybox.outbox {'enable' if is_on else 'disable'} trigger refuse_payload")


def _make_route(stores: BenchStores, directory: Path) -> None:
    (directory / "checked.json").write_text(json.dumps(_SCHEMA))
    stores.write_routes(
        {"bench": {"topics": [TOPIC, _CHECKED_TOPIC]}},
        sinks={"schemas": {_CHECKED_TOPIC: ["checked.json"]}, "schema_checks": {_CHECKED_TOPIC: {"outbox": "refuse"}}},
    )


def _make_contestants(stores: BenchStores, console: Console) -> tuple[str, ...]:
    """Makes tables and queues; returns the contestants that can't be had, after it has said so."""
    stores.query(SOURCE, _TABLES)
    left_out = []
    for name, contestant in CONTESTANTS.items():
        made = [text for make in contestant.makes if (text := make()) is not None]
        if len(made) < len(contestant.makes):
            left_out.append(name)
            console.print(f"[bold]{contestant.title} is left out: its SQL is not here. Run: make rivals[/bold]")
            continue
        for text in made:
            stores.query(SOURCE, text)
    return tuple(left_out)


def _take_turns(place: _Place, left_out: tuple[str, ...], messages: int, rounds: int, console: Console) -> Iterator[Sending]:
    names = [name for name in CONTESTANTS if name not in left_out]
    order: list[tuple[int, tuple[int, str]]] = []
    for round_ in range(WARM_UP, rounds + 1):
        puts = () if round_ == WARM_UP else in_turn(list(PUTS), round_)
        order += [(round_, (size, name)) for size in SIZES for name in in_turn(names, round_)]
        order += [(round_, (size, name)) for size in SIZES for name in puts]
    with shown_turns(order, console, title=lambda turn: f"{turn[1]}, {turn[0]}") as turns:
        for round_, (size, name) in turns:
            place.stores.query(SOURCE, "select relaybox_internal.ensure_outbox_segments()")
            place.check(is_on=name in CONTESTANTS and CONTESTANTS[name].outbox_checks)
            place.stores.settle()
            if name in PUTS:
                sending = _put(place, name, size, round_, messages // SESSIONS // size * size)
            else:
                script = Script(name, CONTESTANTS[name].title, CONTESTANTS[name].statement, size)
                transactions = messages // SESSIONS // size
                sending = send(script, place.directory, round_=round_, transactions=transactions, cpu_seconds=place.cpu_seconds)
            if round_ != WARM_UP:
                yield sending


def _put(place: _Place, name: str, size: int, round_: int, messages: int) -> Sending:
    values = ("orders", "shop-1", "order-1", PAYLOAD)
    before = place.cpu_seconds()
    with closing(psycopg2.connect(service=SOURCE)) as connection, connection.cursor() as cursor:
        begun = time.perf_counter()
        for number in range(1, messages + 1):
            if name == "put":
                put(cursor, values[0], values[1], values[3], key=values[2])
            else:
                cursor.execute(_INSERT, values)
                cursor.fetchone()
            if number % size == 0:
                connection.commit()
        seconds = time.perf_counter() - begun
    return Sending(name, size, round_, messages, seconds, place.cpu_seconds() - before)


def print_report(report: ProduceReport, console: Console) -> None:
    """Prints rates, ratios and CPU times of all contestants."""
    figures = Table(
        "who sends",
        *(f"messages\nper second,\n{size} a\ntransaction" for size in SIZES),
        *(f"CPU of the\nserver, us\na message,\n{size} a\ntransaction" for size in SIZES),
        title=f"{amount(report.messages, 'message')} by {SESSIONS} sessions, {amount(report.rounds, 'round')}, medians",
        caption="More messages per second and fewer microseconds (us) are better.",
    )
    ratios = Table(
        "messages per second / those of the equal table",
        *(f"{size} a transaction:\nmedian (min to max)" for size in SIZES),
        caption=(
            "Good: an insert into the outbox has at least 0.95 of the rate of the equal table. "
            "Those of one session are over the insert by SQL."
        ),
    )
    titles = {name: (CONTESTANTS[name].title, PLAIN) for name in report.contestants}
    for name, (title, baseline) in {**titles, **{name: (f"{title}, 1 session", "sql") for name, title in PUTS.items()}}.items():
        figures.add_row(
            title,
            *(f"{median(report.rates(name, size)):,.0f}" for size in SIZES),
            *(f"{median(report.cpu(name, size)):.1f}" for size in SIZES),
        )
        ratios.add_row(title, *(_spread(report.ratios(name, baseline, size)) for size in SIZES))
    console.print(figures, ratios, sep="\n")


def _spread(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
