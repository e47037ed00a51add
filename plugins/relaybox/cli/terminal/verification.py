"""The verification of a route: the outcome, the numbers behind it, every defect by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from relaybox.amounts import amount
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.rates import show_rates
from relaybox.cli.terminal.tables import NAMED_DEFECTS, new_table, open_console, show_count, styled
from relaybox.verification.stream_verification import VIOLATIONS

if TYPE_CHECKING:
    from relaybox.verification.defects import Defect
    from relaybox.verification.results import LegVerification, RouteVerification
    from relaybox.verification.route_verification import VerifyProgress


@contextmanager
def verify_bar() -> Iterator[Callable[[VerifyProgress], None]]:
    """A bar over the rows to hash."""
    with new_bar() as bar:
        task = bar.add_task("comparing stores", total=None)
        yield lambda progress: bar.update(task, completed=progress.row_count, total=progress.of_count)


def show_verification(verification: RouteVerification) -> None:
    """The outcome first, then the numbers behind it, then every defect by name."""
    console = open_console()
    outcome = {
        "delivered": (("delivered", "green"), ": every message is where it should be, once, unchanged and in order"),
        "set aside": (
            ("set aside", "yellow"),
            ": nothing is missing; a stream set messages aside that no consumer gets until you decide",
        ),
        "in flight": (("in flight", "yellow"), ": nothing is wrong; messages are still on their way"),
        "defects": (("defects found", "red"),),
    }[verification.outcome]
    console.print(styled((verification.route, "bold"), " ", *outcome, f" ({verification.duration_seconds:.1f} s)"))
    numbers = ("due", "there", "in flight", "R", "UR", "defects")
    measured = new_table("compared", "due", "there", "in flight", "R", "UR", "mode", "defects", right=numbers)
    whole = () if len(verification.hops) == 1 else (verification.end_to_end,)
    for leg in (*verification.hops, *whole):
        defects = styled((f"{leg.defect_count:,}", "red" if leg.defect_count else ""))
        counts = map(show_count, (leg.sent, leg.received, leg.in_flight))
        measured.add_row(_leg_name(verification, leg), *counts, *show_rates(leg.delivery, leg.received), defects)
    console.print(measured)
    console.print()
    for leg in (*verification.hops, *whole):
        slices = f"{amount(leg.slice_count, 'slice')} of {amount(leg.batch_count, 'batch', 'batches')}"
        console.print(f"{_leg_name(verification, leg)}: {leg.source} with {leg.destination}, {slices}")
        if leg.adopted_count:
            adopted = f"{leg.adopted_count:,} more compared one by one, delivered before {leg.source} lost history"
            console.print(f"  {adopted}; {len(leg.ghosts):,} of them only {leg.destination} has (ghosts; --json names them)")
        if leg.no_longer_kept:
            console.print(f"  {leg.no_longer_kept:,} more are no longer kept in one of the two: nothing is said of them")
    in_order = verification.sender_count - len(verification.disordered_senders)
    console.print(
        f"order: {in_order:,} of {amount(verification.sender_count, 'sender')} in order at {verification.end_to_end.destination}"
    )
    _show_stream_verifications(console, verification)
    if (repeated := verification.repeated_id_counts) is not None:
        console.print(
            f"note: producers gave {amount(len(verification.repeated_ids), 'id')} to {amount(repeated.messages, 'message')}: at "
            f"{verification.end_to_end.destination} {repeated.delivered:,} are delivered, {repeated.dropped:,} are dropped as duplicates "
            f"of their senders' earlier messages, {repeated.set_aside:,} are set aside, {repeated.waiting:,} wait"
        )
    for leg in (*verification.hops, *whole):
        _show_defects(console, leg)


def _show_stream_verifications(out: Console, verification: RouteVerification) -> None:
    """A line per store, then every kind of violation with the rule that it breaks."""
    for stream in verification.streams:
        count = amount(stream.violation_count, "violation")
        begins = f" from {stream.first_kept_stream_position:,} on" if stream.first_kept_stream_position > 1 else ""
        waits = f", {amount(stream.waiting_count, 'message waits', 'messages wait')}" if stream.waiting_count else ""
        order = f"order {stream.order}, {amount(stream.last_stream_position, 'stream position')}{begins}, "
        violations = (count, "red" if stream.violation_count else "")
        out.print(styled(f"stream {stream.stream} at {stream.store}: {order}", violations, waits))
        if stream.set_aside:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(stream.set_aside.items()))
            unread = f" ({reasons}): they are in the log, and no consumer gets them. Show them: relaybox dead-letters list {stream.store}"
            out.print(
                styled("  ", (amount(stream.set_aside_count, "message is set aside", "messages are set aside"), "yellow"), unread)
            )
        for kind, violation in stream.violations.items():
            out.print(styled("  ", (f"{violation.count:,} {kind}", "red"), f"; the rule is: {VIOLATIONS[kind]}"))
            for example in violation.examples:
                out.print(f"    {example}")


def _leg_name(verification: RouteVerification, leg: LegVerification) -> str:
    return "end to end" if leg is verification.end_to_end else leg.name


def _show_defects(console: Console, leg: LegVerification) -> None:
    if not leg.defect_count:
        return
    tally = Counter(str(defect.kind) for defect in leg.defects)
    if leg.contradictions:
        tally["in the ledgers"] = len(leg.contradictions)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in tally.items())
    console.print(styled("\n", (leg.name, "bold"), f" {leg.source} -> {leg.destination}: {counts}"))
    for contradiction in leg.contradictions:
        console.print(f"  {contradiction}")
    for defect in leg.defects[:NAMED_DEFECTS]:
        console.print(f"  {_defect(defect)}")
    if len(leg.defects) > NAMED_DEFECTS:
        console.print(f"  and {len(leg.defects) - NAMED_DEFECTS:,} more; --json names all")


def _defect(defect: Defect) -> str:
    where = f" at position {defect.log_position:,}" if defect.log_position is not None else ""
    found = f", found at {defect.found_at:,}" if defect.found_at not in (None, defect.log_position) else ""
    return f"{defect.kind:<10} {defect.message_id} of {defect.sender}{where}{found}"
