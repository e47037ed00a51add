"""The reports on a terminal: tables and bars. Bars go to stderr, so that stdout holds the report alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from relaybox.cli.show_streams import show_stream_proofs, show_streams
from relaybox.cli.tables import new_table, open_console, show_count, show_seconds, show_time
from relaybox.monitoring.spark_pages import application_address
from relaybox.monitoring.way import moments
from relaybox.proofs.reliability import is_no_reading, show_ratio

if TYPE_CHECKING:
    from relaybox.consumers.subscriptions import DeadLetter, Subscribed
    from relaybox.hops.confirmations import Settled
    from relaybox.hops.transfer import Progress as TransferProgress
    from relaybox.hops.transfer import TransferSummary
    from relaybox.monitoring.status import HopStatus, LastBatch, OpenBatch, Status
    from relaybox.monitoring.tracing import Trace
    from relaybox.monitoring.way import Moment
    from relaybox.proofs.defects import Defect
    from relaybox.proofs.proof import LegProof, RouteProof
    from relaybox.proofs.reliability import Delivery
    from relaybox.proofs.verification import VerifyProgress
    from relaybox.recovery.reanchored import Reanchored
    from relaybox.recovery.rebuilding import Rebuild
    from relaybox.recovery.restoring import RestoredSubscription
    from relaybox.routes import Hop
    from relaybox.stores.schema import StoreInitialised
    from relaybox.streams.senders import DeclaredSender

NAMED_DEFECTS = 20
"""So many defects of a hop are named on a terminal; --json names all."""


def _rates(delivery: Delivery | None, received: int | None) -> tuple[str, str, str]:
    if delivery is None:
        return "?", "?", "?"
    if is_no_reading(delivery, received):
        return "-", "-", "nothing yet"
    perfect = delivery.reliability == delivery.uniqueness == 1
    return (
        show_ratio(delivery.reliability),
        show_ratio(delivery.uniqueness),
        f"[{'green' if perfect else 'red'}]{delivery.mode}[/]",
    )


def show_status(status: Status) -> None:
    """Numbers of each hop and products of each route, then where each hop goes and what it did last. Fits 80 columns."""
    numbers = ("sent", "received", "lag", "settled", "R", "UR")
    measured = new_table("hop", "sent", "received", "lag", "settled", "R", "UR", "mode", right=numbers)
    for hop in status.hops:
        counts = (show_count(hop.sent), show_count(hop.received), _lag(hop), show_count(hop.settled_through))
        measured.add_row(hop.hop.name, *counts, *_rates(hop.delivery, hop.received))
    for route in status.routes:
        counts = (show_count(route.sent), show_count(route.received), "", "")
        measured.add_row(f"[bold]{route.route.name}[/]", *counts, *_rates(route.delivery, route.received))
    moves = new_table("hop", "way", "last batch")
    for hop in status.hops:
        moves.add_row(hop.hop.name, f"{hop.hop.source.name} -> {hop.hop.destination.name}", _last_batch(hop, status.measured_at))
    console = open_console()
    console.print(measured)
    console.print()
    console.print(moves)
    show_streams(console, status)
    _show_accounts(console, status)
    for hop in status.hops:
        if hop.processed_through is not None:
            names = ", ".join(hop.hop.processed_by)
            console.print(f"{hop.hop.name}: processed by {names} through position {hop.processed_through:,}")
        if hop.last_batch is not None and hop.last_batch.application is not None:
            console.print(f"{hop.hop.name}: batch {hop.last_batch.batch:,} is copied{_driver(hop.last_batch)}")
        if hop.open_batch is not None and hop.history_gap is None:
            console.print(_open_batch(hop, hop.open_batch))


def _show_accounts(console: Console, status: Status) -> None:
    """What is neither delivered nor on its way: only where there is some of it."""
    for hop in status.hops:
        for topic in hop.account or ():
            if topic.unrouted_count or topic.retired_count:
                console.print(
                    f"{hop.hop.name}: topic {topic.topic}: {topic.unrouted_count:,} messages are unrouted, since their topic was taken "
                    f"from the route before they were planned; {topic.retired_count:,} are given up on record"
                )


def _open_batch(hop: HopStatus, batch: OpenBatch) -> str:
    missing = ", ".join(map(str, batch.missing_slices)) or "none, only to be published"
    resume = "A transfer is at it." if hop.driven else f"Resume it with: relaybox transfer {hop.hop.name}"
    return f"{hop.hop.name}: batch {batch.batch} is open, slices to copy: {missing} of {batch.slice_count}. {resume}"


def _lag(hop: HopStatus) -> str:
    if not hop.lag_messages:
        return show_count(hop.lag_messages)
    age = "" if hop.lag_seconds is None else f", {show_seconds(hop.lag_seconds)}"
    return f"[yellow]{hop.lag_messages:,}{age}[/]"


def _last_batch(hop: HopStatus, now: datetime) -> str:
    last = hop.last_batch
    if hop.errors:
        return "[red]see the error below[/]"
    if last is None:
        return "none yet"
    moment, what = (last.published_at, "published") if last.published_at else (last.planned_at, "planned")
    age = max(0.0, (now - moment).total_seconds())
    running = ", [cyan]a transfer is running[/]" if hop.driven else ""
    return f"{last.batch:,}: {last.row_count:,} rows, {what} {show_seconds(age)} ago{running}"


def show_traces(traces: Sequence[Trace]) -> None:
    """The way of a message in the order of time, confirmations coming back included; what lasts comes last."""
    console = open_console()
    for trace in traces:
        console.print(
            f"[bold]{trace.message_id}[/]  route {trace.route}  topic {trace.sent.topic}  sender {escape(trace.sent.sender)}"
        )
        table = new_table("when", "where", "what")
        for moment in moments(trace):
            table.add_row(show_time(moment.at), moment.store, _told(moment))
        console.print(table)


def _told(moment: Moment) -> str:
    recorded = "" if moment.recorded_by is None else f", recorded by {escape(moment.recorded_by)}"
    what = f"{escape(moment.what)}{_driver(moment)}{recorded}"
    return f"[red]{what}[/]" if moment.is_wrong else what


def _driver(moved: Moment | LastBatch) -> str:
    """` by somebody, Spark application local-1 (its address)`, as far as it is known."""
    if moved.moved_by is None:
        return ""
    spark = "" if moved.application is None else f", Spark application {escape(moved.application)}"
    address = application_address(moved.application)
    return f" by {escape(moved.moved_by)}{spark}{'' if address is None else f' ({escape(address)})'}"


def show_proof(proof: RouteProof) -> None:
    """The verdict first, then the numbers behind it, then every defect by name."""
    console = open_console()
    verdict = {
        "delivered": "[green]delivered[/]: every message is where it should be, once, unchanged and in order",
        "in flight": "[yellow]in flight[/]: nothing is wrong; messages are still on their way",
        "defects": "[red]defects found[/]",
    }[proof.verdict]
    console.print(f"[bold]{proof.route}[/] {verdict} ({proof.duration_seconds:.1f} s)")
    numbers = ("due", "there", "in flight", "R", "UR", "defects")
    measured = new_table("compared", "due", "there", "in flight", "R", "UR", "mode", "defects", right=numbers)
    whole = () if len(proof.hops) == 1 else (proof.end_to_end,)
    for leg in (*proof.hops, *whole):
        defects = f"[red]{leg.defect_count:,}[/]" if leg.defect_count else "0"
        counts = map(show_count, (leg.sent, leg.received, leg.in_flight))
        measured.add_row(_leg_name(proof, leg), *counts, *_rates(leg.delivery, leg.received), defects)
    console.print(measured)
    console.print()
    for leg in (*proof.hops, *whole):
        slices = f"{leg.slice_count:,} slices of {leg.batch_count:,} batches"
        console.print(f"{_leg_name(proof, leg)}: {leg.source} with {leg.destination}, {slices}")
        if leg.adopted_count:
            adopted = f"{leg.adopted_count:,} more compared one by one, delivered before {leg.source} lost history"
            console.print(f"  {adopted}; {len(leg.ghosts):,} of them only {leg.destination} has (ghosts; --json names them)")
        if leg.no_longer_kept:
            console.print(f"  {leg.no_longer_kept:,} more are no longer kept in one of the two: nothing is said of them")
    in_order = proof.sender_count - len(proof.disordered_senders)
    console.print(f"order: {in_order:,} of {proof.sender_count:,} senders in order at {proof.end_to_end.destination}")
    show_stream_proofs(console, proof)
    if proof.repeated_ids:
        console.print(f"note: producers gave {len(proof.repeated_ids):,} ids to more than one message; each was delivered")
    for leg in (*proof.hops, *whole):
        _show_defects(console, leg)


def show_reanchored(found: Reanchored, *, done: bool) -> None:
    """What a reanchoring found, and did or would do."""
    console = open_console()
    will = "" if done else "would be "
    console.print(
        f"[bold]{found.hop}[/] batch {found.common_batch} is the last that both stores know; {found.arrived_batch} have arrived"
    )
    if found.cause is not None:
        console.print(f"{found.cause}.")
    if found.loss == "nobody":
        console.print("Nobody lost history; nothing is to be done.")
    elif found.loss == "destination":
        console.print(f"The destination lost history: {will}sent again: {found.resend_count:,} batches, to the same positions")
    else:
        if found.loss == "both":
            console.print("Both stores lost history: the destination lost batches of which the source has no plan")
        lost = "Everything that arrived is in the ledger of the source" if found.may_be_attested else "The source lost history"
        console.print(f"{lost}: {will}adopted: {found.adopted_count:,} messages, {len(found.ghosts):,} of them ghosts")
        console.print(f"  {will}delivered first in generation {found.generation}: {found.undelivered_count:,} messages")
        if found.removed_count:
            console.print(
                f"  {will}removed: {found.removed_count:,} messages of slices that were copied and never published; "
                "what the source still has of them comes again"
            )
        for ghost in found.ghosts[:NAMED_DEFECTS]:
            console.print(f"  ghost: {ghost.message_id} of {ghost.sender}, topic {ghost.topic}, at position {ghost.position}")
        if len(found.ghosts) > NAMED_DEFECTS:
            console.print(f"  and {len(found.ghosts) - NAMED_DEFECTS:,} more; --json names all")


def _leg_name(proof: RouteProof, leg: LegProof) -> str:
    return "end to end" if leg is proof.end_to_end else leg.name


def _show_defects(console: Console, leg: LegProof) -> None:
    if not leg.defect_count:
        return
    tally = Counter(str(defect.kind) for defect in leg.defects)
    if leg.contradictions:
        tally["in the ledgers"] = len(leg.contradictions)
    console.print(
        f"\n[bold]{leg.name}[/] {leg.source} -> {leg.destination}: {', '.join(f'{count:,} {kind}' for kind, count in tally.items())}"
    )
    for contradiction in leg.contradictions:
        console.print(f"  {contradiction}")
    for defect in leg.defects[:NAMED_DEFECTS]:
        console.print(f"  {_defect(defect)}")
    if len(leg.defects) > NAMED_DEFECTS:
        console.print(f"  and {len(leg.defects) - NAMED_DEFECTS:,} more; --json names all")


def _defect(defect: Defect) -> str:
    place = f" at position {defect.position:,}" if defect.position is not None else ""
    found = f", found at {defect.found_at:,}" if defect.found_at not in (None, defect.position) else ""
    return f"{defect.kind:<10} {defect.message_id} of {escape(defect.sender)}{place}{found}"


def show_initialised(stores: Sequence[StoreInitialised]) -> None:
    """What init did, store by store."""
    console = open_console()
    for store in stores:
        for hop in store.left_behind:
            console.print(
                f"{store.store}: {hop} is in no route any more; what it has not moved is kept, see: relaybox retire {hop}"
            )
        if store.public_rights:
            console.print(
                f"{store.store}: every login of the server has {' and '.join(store.public_rights)} on the database; "
                "what ends that: docs/operations.md, Roles in a store"
            )
        if not store.changed:
            console.print(f"{store.store}: up to date")
            continue
        console.print(f"{store.store}:")
        done = {
            "migrations": ", ".join(store.migrations),
            "functions": "renewed" if store.functions_renewed else "",
            "roles": ", ".join(store.roles_created),
            "segments": ", ".join(store.segments_made),
            "hops": ", ".join(f"{hop} {what}" for hop, what in store.hops.items() if what != "unchanged"),
            "rights": f"{' and '.join(store.public_rights_revoked)} revoked from PUBLIC" if store.public_rights_revoked else "",
            "binding of senders to roles": "" if store.sender_binding == "unchanged" else store.sender_binding,
        }
        for what, text in done.items():
            if text:
                console.print(f"  {what}: {text}")


def show_senders(senders: Sequence[DeclaredSender]) -> None:
    """One line per sender of each store, in its newest epoch."""
    if not senders:
        open_console().print("no sender is declared: all messages are numbered by their position in the first log")
        return
    table = new_table(
        "store", "sender", "origin", "kind", "epoch", "counter", "declared", "by", "roles", right=("epoch", "counter")
    )
    for sender in senders:
        table.add_row(
            *(sender.store, sender.sender, sender.origin, sender.kind),
            *(str(sender.epoch), "-" if sender.last_index is None else show_count(sender.last_index)),
            *(show_time(sender.declared_at), escape(sender.declared_by or "-"), escape(", ".join(sender.roles)) or "-"),
        )
    open_console().print(table)


def show_transfer(summary: TransferSummary) -> None:
    """What a transfer moved."""
    resumed = f", {summary.resumed_count} of them resumed" if summary.resumed_count else ""
    open_console().print(
        f"{summary.hop}: {summary.row_count:,} messages in {summary.batch_count:,} batches{resumed}, "
        f"{summary.byte_count / 1e6:,.1f} MB, {show_seconds(summary.duration_seconds)}, {summary.rows_per_second:,.0f} messages/s"
    )


def show_settled(hops: Sequence[Settled]) -> None:
    """How far each hop is settled."""
    for hop in hops:
        open_console().print(f"{hop.hop}: settled through position {hop.through_position:,}, {hop.newly_settled:,} messages anew")


def _bar() -> Progress:
    console = open_console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def verify_bar() -> Iterator[Callable[[VerifyProgress], None]]:
    """A bar over the rows to hash."""
    with _bar() as bar:
        task = bar.add_task("comparing stores", total=None)
        yield lambda progress: bar.update(task, completed=progress.row_count, total=progress.of_count)


@contextmanager
def transfer_bar(hop: Hop) -> Iterator[Callable[[TransferProgress], None]]:
    """A bar over the rows of the batch at work."""
    with _bar() as bar:
        task = bar.add_task(hop.name, total=None)
        yield lambda progress: bar.update(
            task, description=f"{hop.name} batch {progress.batch}", completed=progress.copied, total=progress.row_count
        )


def show_rebuild(found: Rebuild, restored: Sequence[RestoredSubscription]) -> None:
    """What a rebuild would bring back, or did; then what it can't."""
    console = open_console()
    table = new_table("hop", "with", "messages", "known here", "what is done", right=("messages", "known here"))
    for hop in found.hops:
        what = "sent again, to the same positions" if hop.arrives else "adopted; nothing is sent there twice"
        if hop.known_count >= hop.message_count:
            what = "nothing"
        table.add_row(hop.hop, hop.other_store, show_count(hop.message_count), show_count(hop.known_count), what)
    console.print(table)
    for loss in found.losses:
        console.print(f"[red]lost[/]: {loss}")
    for stream, doubt in found.doubts.items():
        console.print(f"[yellow]stream {stream}[/]: its places may differ from the lost ones ({doubt})")
    for one in restored:
        where = f"goes on at place {one.first_place:,}" if one.doubt is None else f"starts at the beginning: {one.doubt}"
        console.print(f"subscription {one.subscription}: {where}")
        if one.dead_letter_places:
            places = ", ".join(map(str, one.dead_letter_places[:NAMED_DEFECTS]))
            console.print(f"  its {len(one.dead_letter_places):,} dead letters are lost; their messages are at places {places}")
    if found.verdicts is not None:
        console.print(f"{found.store}: {found.moved_count:,} messages came in {found.duration_seconds:.1f} s")
        for route, verdict in found.verdicts.items():
            console.print(f"route {route}: {verdict}")


def show_subscriptions(found: Sequence[Subscribed]) -> None:
    numbers = ("lanes", "leased", "done", "last", "behind", "detached", "dead letters")
    table = new_table("store", "subscription", "stream", "topic", *numbers, "state", right=numbers)
    for one in found:
        state = f"replay of {one.replay_of}" if one.replay_of else "replaying" if one.replaying else "live"
        done = (one.done_place, one.last_place, one.places_behind, one.detached_places)
        counts = (one.lanes, one.leased_lanes, *done, one.dead_letters)
        table.add_row(one.store, one.subscription, one.stream, one.topic or "all", *map(show_count, counts), state)
    open_console().print(table if found else "No subscriptions.")


def show_dead_letters(found: Sequence[DeadLetter]) -> None:
    table = new_table(
        "store", "letter", "of", "place", "sender", "attempts", "last", "reason", "state", right=("letter", "place", "attempts")
    )
    for one in found:
        reason = escape(f"{one.reason}: {one.detail}" if one.detail else one.reason)
        table.add_row(
            *(
                one.store,
                str(one.letter),
                one.subscription or f"stream {one.stream}",
                "-" if one.place is None else str(one.place),
            ),
            *(one.sender or "-", str(one.attempts), show_time(one.last_at), reason, one.state),
        )
    open_console().print(table if found else "No dead letters.")
