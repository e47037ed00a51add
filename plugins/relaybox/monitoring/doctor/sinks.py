"""Webhooks and sinks of Kafka: whether relaybox.yaml and their subscriptions agree, and whether they may run."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok
from relaybox.monitoring.doctor.subscriptions import diagnose_readers, find_hidden
from relaybox.stores.readers.reader_problems import list_all_problems


def check_sinks(examined: Examined) -> Iterator[Diagnosis]:
    """Each subscription with the name of a sink is of a sink in relaybox.yaml, with its stream, topic and settings; and none was ended.

    What nobody acknowledges is kept from retention, and a sink that differs from its subscription delivers nothing.
    """
    if not examined.server.has_schema:
        return
    if (relation := find_hidden(examined)) is not None:
        yield hidden(examined, f"relaybox_internal.{relation}")
        return
    problems = list_all_problems(examined.session, examined.store, examined.routes)
    found = diagnose_readers(one for one in problems if one.is_of_sink)
    yield from found or [ok("Each subscription of a webhook or of Kafka has its sink and agrees with it.")]
