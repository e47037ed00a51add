"""Subscriptions: whether a route of relaybox.yaml brings what they read, and whether those that it names are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read
from relaybox.stores.readers.reader_problems import READ_RELATIONS, list_all_problems

if TYPE_CHECKING:
    from relaybox.stores.readers.reader_problems import ReaderProblem


def check_subscriptions(examined: Examined) -> Iterator[Diagnosis]:
    """A route of relaybox.yaml brings what each subscription reads, and each subscription that processed_by names is there.

    Else it stands still and seems to be up to date, or nothing more is settled.
    """
    if not examined.server.has_schema:
        return
    if (relation := find_hidden(examined)) is not None:
        yield hidden(examined, f"relaybox_internal.{relation}")
        return
    problems = list_all_problems(examined.session, examined.store, examined.routes)
    found = diagnose_readers(one for one in problems if not one.is_of_sink)
    yield from found or [ok("A route of relaybox.yaml brings what each subscription reads.")]


def find_hidden(examined: Examined) -> str | None:
    """The first relation that the reading of readers needs and the login may not read; None: it may read all."""
    return next((relation for relation in READ_RELATIONS if not may_read(examined.session, relation)), None)


def diagnose_readers(problems: Iterable[ReaderProblem]) -> list[Diagnosis]:
    """Not of a reader that only has to run for the first time: nothing is wrong with the store, and status and retention name it."""
    return [warning(one.what, one.next_step) for one in problems if one.needs_decision or one.stops_settling]
