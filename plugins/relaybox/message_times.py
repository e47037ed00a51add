"""When a message may be delivered and when it expires, as producers say it: a time, or a span from the store's clock on.

A store reads both from headers, in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

MessageTime = datetime | timedelta
"""A time with its time zone, or a span of time that begins when the store inserts the message, by the clock of the store."""

DELIVER_AFTER_HEADER = "relaybox-deliver-after"
EXPIRES_AT_HEADER = "relaybox-expires-at"


class TimedHeaders(NamedTuple):
    """The headers of a message with its times; the spans, in seconds, are added by the statement that inserts it."""

    headers: Mapping[str, Any] | None
    deliver_in: float | None
    expire_in: float | None


def add_times(
    headers: Mapping[str, Any] | None, *, deliver_after: MessageTime | None, expires_at: MessageTime | None
) -> TimedHeaders:
    """Adds the times of a message to its headers.

    Raises:
        ValueError: a time without a time zone, or a header that says the same as an argument.
        TypeError: neither a datetime nor a timedelta.
    """
    times: dict[str, float] = {}
    spans: dict[str, float] = {}
    for argument, header, value in (
        ("deliver_after", DELIVER_AFTER_HEADER, deliver_after),
        ("expires_at", EXPIRES_AT_HEADER, expires_at),
    ):
        if value is None:
            continue
        if header in (headers or {}):
            raise ValueError(f"{argument} and the header {header}: give one of them")
        if isinstance(value, timedelta):
            spans[argument] = value.total_seconds()
        elif isinstance(value, datetime):
            times[header] = _seconds(argument, value)
        else:
            raise TypeError(f"{argument} is a {type(value).__name__}; it takes a datetime with a time zone, or a timedelta")
    return TimedHeaders({**(headers or {}), **times} if times else headers, spans.get("deliver_after"), spans.get("expires_at"))


def _seconds(argument: str, moment: datetime) -> float:
    if moment.utcoffset() is None:
        raise ValueError(
            f"{argument} is {moment.isoformat()}, without a time zone: each machine would read another time. "
            "Give one, as in datetime.now(UTC)."
        )
    seconds = moment.timestamp()
    return int(seconds) if seconds.is_integer() else seconds
