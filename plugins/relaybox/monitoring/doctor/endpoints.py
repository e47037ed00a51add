"""Endpoints of webhooks and of Kafka: whether they take messages."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox.amounts import amount
from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.numbers import show_duration
from relaybox.monitoring.doctor.record import may_read
from relaybox.stores.readers.failing_endpoints import read_failing_endpoints

# not to_regprocedure(): it refuses a login that may not use the schema
_IS_THERE = """
select exists (
    select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'relaybox_internal' and p.proname = 'failing_endpoints'
)
"""


def check_endpoints(examined: Examined) -> Iterator[Diagnosis]:
    """No endpoint to which a subscription is delivered fails. Names the subscription: a URL is not for everyone who reads this."""
    if not examined.server.has_schema or not examined.session.value(_IS_THERE):
        return  # the check schema tells
    if not may_read(examined.session, "endpoint_failure"):
        yield hidden(examined, "relaybox_internal.endpoint_failure")
        return
    found = read_failing_endpoints(examined.session)
    for one in found:
        seconds = float(examined.session.call("relaybox_internal.age_seconds", one.failing_since))
        waiting = amount(one.waiting_count, "message waits", "messages wait")
        yield warning(
            f"The endpoint of subscription {one.subscription} has taken no message for {show_duration(seconds)}: "
            f"{amount(one.failure_count, 'attempt')} failed. {waiting}, and none is refused.",
            one.next_step,
        )
    if not found:
        yield ok("Every endpoint of a webhook or of Kafka takes messages, as far as was tried.")
