"""`relaybox bench retention`: a day in turns (send, move, read, drop), a snapshot held for a part of it: is what is kept flat?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg2
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.environment import core_count, describe_environment
from relaybox.local.bench.report import write_json
from relaybox.local.bench.rounds import show_progress
from relaybox.local.bench.stores import DESTINATION, SOURCE, TOPIC, BenchStores, bench_directory, open_bench_stores
from relaybox.retention.segments import retain_store

if TYPE_CHECKING:
    from relaybox.routes import Routes

FETCH_ROWS = 10_000
PHASES = ("warm-up", "before", "held", "after")
"""The first tenth of the turns, then three parts of equal length; a snapshot of each store is held during the third."""

_SEND = """
insert into relaybox.outbox (topic, sender, payload)
select %(topic)s, 'shop-' || n %% 16, 'order ' || n from generate_series(1, %(rows)s) n
"""
_FETCH = "select stream_position, token from relaybox.fetch('day', %s, %s, %s, worker => 'bench')"
_SELECT = """
select log_position from (
    select l.*, row_number() over (order by l.log_position) from relaybox_internal.log l where l.log_position > %s
        and l.log_position <= %s offset 0
) rows
"""
_BYTES = """
select sum(pg_total_relation_size(c.oid))::bigint from pg_class c
where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind = 'r'
"""


@dataclass(frozen=True)
class Turn:
    """One turn: what both stores hold before it drops anything, and the seconds of its median fetch of 10,000 messages.

    `select_seconds`: of a plain select of the same columns, for the same messages: how busy the machine was.
    """

    number: int
    phase: str
    seconds: float
    source_bytes: int
    destination_bytes: int
    fetch_seconds: float
    select_seconds: float
    dropped_count: int


@dataclass(frozen=True)
class RetentionReport:
    """All turns of one run, and in what circumstances they were made."""

    messages: int
    turn_rows: int
    environment: Mapping[str, Any]
    turns: tuple[Turn, ...]

    def medians(self, phase: str) -> dict[str, float]:
        turns = [turn for turn in self.turns if turn.phase == phase]
        return {
            "source_bytes": median(turn.source_bytes for turn in turns),
            "destination_bytes": median(turn.destination_bytes for turn in turns),
            "fetch_seconds": median(turn.fetch_seconds for turn in turns),
            "fetch_over_select": median(turn.fetch_seconds / turn.select_seconds for turn in turns),
        }

    def ratios(self, phase: str) -> dict[str, float]:
        """A phase's medians over those before the snapshot was held; flat is 1."""
        before = self.medians("before")
        return {name: value / before[name] for name, value in self.medians(phase).items()}

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        figures = {phase: {"medians": self.medians(phase), "ratios": self.ratios(phase)} for phase in PHASES[1:]}
        return {**asdict(self), "phases": figures}


def run_bench_retention(
    *, messages: int, turns: int = 100, json_path: Path | None = None, console: Console | None = None
) -> RetentionReport:
    """Makes clusters, runs the turns, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: the consumer did not read each message once.
        Terminal, Transient: a store failed.
    """
    if turns < 20 or messages < turns:
        raise errors.ConfigurationError(
            "bench retention: turns must be 20 or more, and messages as many.", next_step="Run: relaybox bench retention --help"
        )
    console = console or Console()
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, {}) as stores,
    ):
        rows = messages // turns
        # a turn fills a segment
        routes = stores.write_routes({"day": {"topics": [TOPIC], "retention": {"replay_window_seconds": 0}}}, segment_rows=rows)
        stores.query(DESTINATION, "select relaybox.subscribe('day', 'day')")
        environment = describe_environment(stores)
        with show_progress(console) as progress:
            task = progress.add_task("turns", total=turns)
            done = []
            for turn in _run(stores, routes, rows, turns):
                done.append(turn)
                progress.update(task, advance=1, description=turn.phase)
        report = RetentionReport(rows * turns, rows, environment, tuple(done))
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _phase(number: int, turns: int) -> str:
    warm = turns // 10
    return PHASES[0] if number < warm else PHASES[1 + 3 * (number - warm) // (turns - warm)]


def _run(stores: BenchStores, routes: Routes, rows: int, turns: int) -> Iterator[Turn]:
    with ExitStack() as held, closing(psycopg2.connect(service=DESTINATION)) as consumer:
        consumer.autocommit = True
        acked, holds = 0, False
        for number in range(turns):
            phase = _phase(number, turns)
            if (phase == "held") != holds:
                holds = phase == "held"
                _hold_snapshots(held) if holds else held.close()
            begun = time.perf_counter()
            stores.query(SOURCE, _SEND, {"topic": TOPIC, "rows": rows})
            (hop,) = routes.hops
            transfer_hop(hop, ThreadRunner(core_count()), recorded_by="relaybox bench retention")
            settle_hop(routes.route("day"), hop, recorded_by="relaybox bench retention")
            acked, fetches = _read(consumer, acked, acked + rows)
            selects = list(_select(consumer, acked - rows, acked))
            ((source_bytes,),), ((destination_bytes,),) = (stores.query(store, _BYTES) for store in (SOURCE, DESTINATION))
            done = [retain_store(store, recorded_by="relaybox bench retention") for store in routes.stores.values()]
            yield Turn(
                number=number,
                phase=phase,
                seconds=time.perf_counter() - begun,
                source_bytes=source_bytes,
                destination_bytes=destination_bytes,
                fetch_seconds=median(fetches),
                select_seconds=median(selects),
                dropped_count=sum(table.dropped_count for one in done for table in one.tables),
            )


def _hold_snapshots(held: ExitStack) -> None:
    for store in (SOURCE, DESTINATION):
        session = held.enter_context(closing(psycopg2.connect(service=store)))
        session.set_session(isolation_level="REPEATABLE READ", readonly=True)
        with session.cursor() as cursor:
            cursor.execute("select 1")


def _read(consumer: Any, acked: int, through: int) -> tuple[int, list[float]]:
    """Reads on to a stream position, in fetches of 10,000 that acknowledge the one before; the seconds of each full one, or of all."""
    seconds: list[tuple[int, float]] = []
    fetched, verification = acked, (None, None)
    with consumer.cursor() as cursor:
        while True:
            begun = time.perf_counter()
            cursor.execute(_FETCH, (FETCH_ROWS, *verification))
            rows = cursor.fetchall()
            stream_positions = [stream_position for stream_position, _ in rows]
            if not stream_positions:
                break
            seconds.append((len(stream_positions), time.perf_counter() - begun))
            if stream_positions != list(range(fetched + 1, fetched + len(stream_positions) + 1)):
                raise errors.ContentDiffers(
                    f"stream positions {stream_positions[0]} to {stream_positions[-1]} came after stream position {fetched}."
                )
            fetched, verification = stream_positions[-1], rows[-1]
    if fetched != through:
        raise errors.ContentDiffers(f"the consumer read through stream position {fetched}, there are {through}.")
    return fetched, [took for count, took in seconds if count == FETCH_ROWS] or [took for _, took in seconds]


def _select(consumer: Any, after: int, through: int) -> Iterator[float]:
    """The seconds of each plain select of 10,000 of the messages just read."""
    with consumer.cursor() as cursor:
        for first in range(after, through, FETCH_ROWS):
            begun = time.perf_counter()
            cursor.execute(_SELECT, (first, first + FETCH_ROWS))
            cursor.fetchall()
            yield time.perf_counter() - begun


def print_report(report: RetentionReport, console: Console) -> None:
    """Prints disk use and times of each part of the run."""
    title = f"{amount(report.messages, 'message')}, sent, moved, read and dropped in turns of {report.turn_rows:,}"
    table = Table(
        "part of the run",
        "disk of the\noutbox's store, MB",
        "disk of the\nlog's store, MB",
        "a fetch of\n10,000, ms",
        "its time / that\nof a plain select",
        title=title,
        caption="Medians; in brackets the ratio to the first row. Good: about 1, disk and time do not grow.",
    )
    for phase in PHASES[1:]:
        found, ratios = report.medians(phase), report.ratios(phase)
        table.add_row(
            {"before": "before the snapshot", "held": "while a snapshot is held", "after": "after the snapshot"}[phase],
            *(f"{found[name] / 1e6:,.1f} ({ratios[name]:.2f})" for name in ("source_bytes", "destination_bytes")),
            f"{found['fetch_seconds'] * 1e3:,.1f} ({ratios['fetch_seconds']:.2f})",
            f"{found['fetch_over_select']:.2f} ({ratios['fetch_over_select']:.2f})",
        )
    console.print(table)
