"""The places of large payloads: whether they are reached from here, and collected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import ConfigurationError, PayloadsUnavailable
from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.numbers import show_duration
from relaybox.monitoring.doctor.record import may_read
from relaybox.monitoring.doctor.schemas import is_current
from relaybox.payloads import PayloadStore

if TYPE_CHECKING:
    from relaybox.routes import PayloadPlace

LATE_SECONDS = 3 * 86_400
"""Retention runs each day: a place that was not collected for so long has a reason."""

MUCH_BYTES = 2**30
"""Fewer bytes of files to which no message refers are nothing to report."""


class _Collected(NamedTuple):
    seconds: float
    referenced_count: int
    referenced_bytes: int
    unreferenced_count: int
    unreferenced_bytes: int
    trash_bytes: int


_NEWEST = """
select extract(epoch from clock_timestamp() - c.collected_at)::float8 as seconds, c.referenced_count, c.referenced_bytes,
    c.unreferenced_count, c.unreferenced_bytes, c.trash_bytes
from relaybox_internal.payload_collection c where c.place::text = %s
"""


def check_payloads(examined: Examined) -> Iterator[Diagnosis]:
    """Each place of large payloads is there, is collected, and is not full of files that no message needs."""
    places = examined.routes.payloads
    first = next(iter(examined.routes.stores.values()))
    if not places:
        yield ok("relaybox.yaml has no place of large payloads.")
    elif examined.store != first:
        yield ok(f"Places of large payloads are checked once, with store {first.name}.")
    elif not is_current(examined):
        return  # the check schema tells
    elif not may_read(examined.session, "payload_collection"):
        yield hidden(examined, "relaybox_internal.payload_collection")
    else:
        for place in places.values():
            yield _check(examined, place)


def _check(examined: Examined, place: PayloadPlace) -> Diagnosis:
    try:
        place_id = PayloadStore(place.location).read_place("examining it")
    except (PayloadsUnavailable, ConfigurationError) as error:
        return warning(f"Place {place.name} can't be read from here: {Exception.__str__(error)}", error.next_step)
    found = examined.session.row_if_any(_Collected, _NEWEST, place_id)
    if found is None:
        return warning(
            f"Place {place.name} was never collected: files of transactions that were rolled back, and of messages that are dropped, stay.",
            f"Run: relaybox payloads collect {place.name} --dry-run",
        )
    if found.seconds > LATE_SECONDS:
        return warning(
            f"Place {place.name} was not collected for {show_duration(found.seconds)}.",
            f"See why: relaybox payloads collect {place.name} --dry-run",
        )
    if found.unreferenced_bytes > max(MUCH_BYTES, found.referenced_bytes):
        return warning(
            f"Place {place.name} has {_megabytes(found.unreferenced_bytes)} in {found.unreferenced_count:,} files to which no message "
            f"refers, and {_megabytes(found.referenced_bytes)} in files that messages need. Transactions are rolled back after they have "
            "written a file, or one that is open for long keeps the files.",
            f"See what keeps them: relaybox payloads collect {place.name} --dry-run",
        )
    return ok(
        f"Place {place.name} was collected {show_duration(found.seconds)} ago: messages refer to {found.referenced_count:,} files, "
        f"{_megabytes(found.referenced_bytes)}; {_megabytes(found.trash_bytes)} are in the trash."
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
