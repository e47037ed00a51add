"""Status of hops and paths of messages, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from relaybox.amounts import amount
from relaybox.cli.terminal.rates import show_rates
from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_seconds, show_time, styled
from relaybox.monitoring.message_timeline import moments
from relaybox.monitoring.spark_pages import application_address
from relaybox.verification.reliability import show_ratio

if TYPE_CHECKING:
    from relaybox.monitoring.message_timeline import TimelineEntry
    from relaybox.monitoring.message_trace import Trace
    from relaybox.monitoring.status import HopStatus, LastBatch, OpenBatch, Status


def show_status(status: Status) -> None:
    """Prints the counts of each hop and route, then the path and last batch of each hop. Fits 80 columns."""
    numbers = ("sent", "received", "lag", "settled", "R", "UR")
    measured = new_table("hop", "sent", "received", "lag", "settled", "R", "UR", "mode", right=numbers)
    for hop in status.hops:
        counts = (show_count(hop.sent), show_count(hop.received), _lag(hop), show_count(hop.settled_through))
        measured.add_row(hop.hop.name, *counts, *show_rates(hop.delivery, hop.received))
    for route in status.routes:
        counts = (show_count(route.sent), show_count(route.received), "", "")
        measured.add_row(styled((route.route.name, "bold")), *counts, *show_rates(route.delivery, route.received))
    moves = new_table("hop", "path", "last batch")
    for hop in status.hops:
        moves.add_row(hop.hop.name, f"{hop.hop.source.name} -> {hop.hop.destination.name}", _last_batch(hop, status.measured_at))
    console = open_console()
    console.print(measured)
    console.print()
    console.print(moves)
    _show_streams(console, status)
    _show_accounts(console, status)
    for hop in status.hops:
        if hop.processed_through is not None:
            names = ", ".join(hop.hop.processed_by)
            console.print(f"{hop.hop.name}: processed by {names} through position {hop.processed_through:,}")
        if hop.last_batch is not None and hop.last_batch.application is not None:
            console.print(f"{hop.hop.name}: batch {hop.last_batch.batch:,} is copied{_driver(hop.last_batch)}")
        if hop.open_batch is not None and hop.history_gap is None:
            console.print(_open_batch(hop, hop.open_batch))
    _show_adopted(console, status)
    for store, durability in status.provider_durability.items():
        console.print(
            f"{store}: its provider makes commits durable, fsync is not checked: {durability.reason} "
            f"(recorded by {durability.said_by}, {show_time(durability.said_at)})"
        )


def _show_streams(out: Console, status: Status) -> None:
    """Prints what each store delivers from the log of a hop, and the stalled senders."""
    known = [(hop.hop, hop.stream) for hop in status.hops if hop.stream is not None]
    if not known:
        return
    numbers = ("stream_positions", "duplicates", "held", "set aside", "UR")
    rows = new_table("delivers", "order", *numbers, right=numbers)
    for hop, stream in known:
        counts = map(show_count, (stream.last_stream_position, stream.duplicate_count, stream.held_count, stream.set_aside_count))
        rows.add_row(hop.name, stream.delivery_order, *counts, show_ratio(stream.uniqueness) if stream.decided_rows else "-")
    out.print()
    out.print(rows)
    for hop, stream in known:
        if stream.undecided_rows:
            out.print(
                f"{hop.name}: {stream.undecided_rows:,} published messages are not classified yet; the next transfer does it"
            )
        for sender in stream.stalled:
            said = (f"sender {sender.sender} stalled: {sender.reason}", "red")
            out.print(styled(f"{hop.name}: ", said, f". See: relaybox holdback {hop.route}"))


def _show_accounts(console: Console, status: Status) -> None:
    """Messages that were neither delivered nor are on their way, if there are any."""
    moved = {
        (hop.hop.source, topic)
        for hop in status.hops
        if hop.hop.upstream is None
        for topic in set(hop.hop.topics).difference(hop.unknown_topics.topics if hop.unknown_topics else ())
    }
    for hop in status.hops:
        for topic in hop.account or ():
            # what left this hop goes by the one that has its topic now, whose lag counts it
            unrouted_count = 0 if (hop.hop.source, topic.topic) in moved else topic.unrouted_count
            if unrouted_count:
                unrouted = amount(unrouted_count, "message is unrouted", "messages are unrouted")
                because = (
                    "the hop was retired" if hop.retired else "the topic was removed from the route before they were planned"
                )
                console.print(f"{hop.hop.name}: topic {topic.topic}: {unrouted}, because {because}")
            if topic.retired_count:
                retired = amount(topic.retired_count, "message is discarded", "messages are discarded")
                console.print(f"{hop.hop.name}: topic {topic.topic}: {retired} on record (relaybox retire)")


def _show_adopted(console: Console, status: Status) -> None:
    """Tables of applications whose rows are sent, and what is wrong with them."""
    for table in status.adopted_tables:
        waiting = f", {amount(table.waiting_count, 'message waits', 'messages wait')}" if table.waiting_count else ""
        aside = f", {amount(table.unmapped_count, 'row is', 'rows are')} unmapped" if table.unmapped_count else ""
        console.print(f"{table.store}: table {table.table_name} is adopted, {table.state}{waiting}{aside}")
        for problem in table.problems:
            console.print(styled((f"{table.store}: table {table.table_name}: {problem}", "red")))


def _open_batch(hop: HopStatus, batch: OpenBatch) -> str:
    missing = ", ".join(map(str, batch.missing_slices)) or "none, it must only be published"
    resume = "A transfer is running." if hop.driven else f"Run: relaybox transfer {hop.hop.name}"
    return f"{hop.hop.name}: batch {batch.batch} is open, slices to copy: {missing} of {batch.slice_count}. {resume}"


def _lag(hop: HopStatus) -> str | Text:
    if not hop.lag_messages:
        return show_count(hop.lag_messages)
    age = "" if hop.lag_seconds is None else f", {show_seconds(hop.lag_seconds)}"
    return styled((f"{hop.lag_messages:,}{age}", "yellow"))


def _last_batch(hop: HopStatus, now: datetime) -> str | Text:
    last = hop.last_batch
    if hop.errors:
        return styled(("see the error below", "red"))
    if last is None:
        return "none yet"
    moment, what = (last.published_at, "published") if last.published_at else (last.planned_at, "planned")
    age = max(0.0, (now - moment).total_seconds())
    running = (", ", ("a transfer is running", "cyan")) if hop.driven else ()
    return styled(f"{last.batch:,}: {amount(last.row_count, 'row')}, {what} {show_seconds(age)} ago", *running)


def show_traces(traces: Sequence[Trace]) -> None:
    """Prints the path of a message in time order, confirmations included; open states come last."""
    console = open_console()
    for trace in traces:
        console.print(
            styled(
                (str(trace.message_id), "bold"), f"  route {trace.route}  topic {trace.sent.topic}  sender {trace.sent.sender}"
            )
        )
        table = new_table("when", "where", "what")
        for moment in moments(trace):
            table.add_row(show_time(moment.at), moment.store, _told(moment))
        console.print(table)


def _told(moment: TimelineEntry) -> Text:
    recorded = "" if moment.recorded_by is None else f", recorded by {moment.recorded_by}"
    return styled((f"{moment.what}{_driver(moment)}{recorded}", "red" if moment.is_wrong else ""))


def _driver(moved: TimelineEntry | LastBatch) -> str:
    """` by NAME, Spark application local-1 (its address)`, as far as it is known."""
    if moved.moved_by is None:
        return ""
    spark = "" if moved.application is None else f", Spark application {moved.application}"
    address = application_address(moved.application)
    return f" by {moved.moved_by}{spark}{'' if address is None else f' ({address})'}"
