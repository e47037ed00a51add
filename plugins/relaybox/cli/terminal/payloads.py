"""The files of large payloads, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.tables import NAMED_DEFECTS, new_table, open_console, show_count, show_seconds, show_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.payloads.checking import PlaceChecked, PlaceStatus
    from relaybox.payloads.collecting import PlaceCollected
    from relaybox.payloads.gathering import MissingPayload
    from relaybox.payloads.listing import FileTotal
    from relaybox.payloads.trash import PlaceRestored


@contextmanager
def payload_bar(place: str) -> Iterator[Callable[[str, int], None]]:
    """What is done now, and how many files or references it has done."""
    with new_bar() as bar:
        task = bar.add_task(f"{place}: listing files", total=None)

        def tell(doing: str, count: int) -> None:
            bar.update(task, description=f"{place}: {doing}", completed=count)

        yield tell


def show_status(found: PlaceStatus) -> None:
    """A line per state; then each file, if they were asked for."""
    console = open_console()
    age = "" if found.oldest is None else f", the oldest from {show_time(found.oldest)}"
    console.print(
        f"{found.place}: {found.location}: {amount(found.reference_count, 'message refers', 'messages refer')} to its files{age}",
        soft_wrap=True,
    )
    table = new_table("files", "count", "MB", "", right=("count", "MB"))
    for state, total in found.files.items():
        table.add_row(state, show_count(total.count), _megabytes(total), _STATES[state])
    if found.files:
        console.print(table)
    for count, what in (
        (found.partial_count, "being written, or left by killed writers"),
        (found.unknown_count, "not of Relaybox"),
    ):
        if count:
            console.print(f"  {amount(count, 'file')}: {what}")
    remembered = [one.identity.store for one in found.stores if one.must_be_asked]
    console.print(
        f"  stores that refer to it: {', '.join(remembered) or f'not recorded. Run: relaybox payloads prepare {found.place}'}"
    )
    if found.details:
        _show_files(found)


def _show_files(found: PlaceStatus) -> None:
    table = new_table("file", "bytes", "age", "state", "messages", right=("bytes", "age", "messages"))
    now = datetime.now(UTC)
    for one in found.details:
        age = show_seconds(max(0.0, (now - one.since).total_seconds()))
        table.add_row(one.ref, show_count(one.bytes), age, one.state, show_count(one.message_count))
    open_console().print(table)


_STATES = {
    "referenced": "messages refer to them",
    "trash": "removed by collections; relaybox payloads restore brings them back",
    "unknown": "a store did not answer",
    "unreferenced": "no message refers to them; relaybox payloads collect removes them",
    "young": "no message refers to them yet",
}


def show_checked(found: PlaceChecked) -> None:
    compared = "length and content" if found.read else "length"
    known = f"; {amount(len(found.errors), 'store')} did not answer" if found.errors else ""
    print_text(
        f"{found.place}: {amount(found.reference_count, 'message refers', 'messages refer')} to "
        f"{amount(found.referenced.count, 'file')}, {_megabytes(found.referenced)} MB: {compared} compared, "
        f"{amount(len(found.missing), 'file')} missing or different{known}"
    )
    _show_missing(found.missing, len(found.missing), found.place)


def show_collected(done: PlaceCollected) -> None:
    """One line for what happened, and one for each thing that a person should know."""
    would = "would be " if done.dry_run else ""
    print_text(
        f"{done.place}: {amount(done.trashed.count, 'file')}, {_megabytes(done.trashed)} MB, {would}moved into the trash; "
        f"{amount(done.removed.count, 'file')}, {_megabytes(done.removed)} MB, {would}removed from it for good; "
        f"messages refer to {amount(done.referenced.count, 'file')}, {_megabytes(done.referenced)} MB"
    )
    if done.young.count:
        held = f", since a transaction is open: {done.held_by}" if done.held_by else ""
        print_text(
            f"  {amount(done.young.count, 'file')}, {_megabytes(done.young)} MB, without a message "
            f"{'stays' if done.young.count == 1 else 'stay'}: not older than {show_time(done.cutoff)}{held}"
        )
    if done.put_back.count:
        print_text(
            f"  {amount(done.put_back.count, 'file')} {would}brought back from the trash: messages refer to them. "
            "A store was restored, or another collection did not ask all stores"
        )
    if done.partial_count:
        print_text(f"  {amount(done.partial_count, 'file')} of killed writers {would}removed")
    if done.unknown_count:
        print_text(f"  {amount(done.unknown_count, 'file')} of the place: not of Relaybox, nothing touches them")
    if done.recorded:
        print_text(f"  recorded as stores that refer to the place: {', '.join(done.recorded)}")
    if done.other_places:
        print_text(
            f"  messages refer to files that are here by {', '.join(done.other_places)}, the id of another place: the mark "
            "of this place was lost and made anew. Restore it from a backup: consumers refuse these messages"
        )
    _show_missing(done.missing, done.missing_count, done.place)


def _show_missing(missing: Sequence[MissingPayload], count: int, place: str) -> None:
    for one in missing[:NAMED_DEFECTS]:
        print_text(f"  {one.ref}: {one.problem}; {one.store}, {one.held_in}, position {one.position:,} refers to it")
    if count > len(missing[:NAMED_DEFECTS]):
        print_text(f"  and {count - len(missing[:NAMED_DEFECTS]):,} more; relaybox payloads check --json names all")
    if missing:
        print_text(
            f"  Look for them in the trash: relaybox payloads restore {place}. Or restore them from a backup of the place. "
            "Consumers refuse these messages until then: see relaybox dead-letters list"
        )


def describe_restored(done: PlaceRestored) -> str:
    return (
        f"{done.place}: {amount(done.restored.count, 'file')}, {_megabytes(done.restored)} MB, back from the trash; "
        f"{amount(done.in_trash.count, 'file')}, {_megabytes(done.in_trash)} MB, left in it"
    )


def _megabytes(total: FileTotal) -> str:
    return f"{total.bytes / 1e6:,.1f}"
