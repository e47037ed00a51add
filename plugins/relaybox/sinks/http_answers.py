"""Whose fault an HTTP answer is: a decision without I/O. docs/outward.md has it as a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from relaybox.sinks.outcomes import EndpointFailure, Outcome

LONGEST_RETRY_AFTER_SECONDS = 86_400.0
_EXCERPT_CHARACTERS = 300

_OF_THE_ENDPOINT = frozenset({401, 403, 407, 408, 421, 423, 425, 429})
"""Answers 4xx that every message would get now: a wrong secret, too many requests. The other ones are the message's."""


def classify_answer(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Outcome:
    """Returns the outcome of one message.

    Args:
        status: of the answer.
        headers: of the answer, their names in small letters.
        body: the beginning of it, for the reason.
        now: for a Retry-After that is a date, of an answer without a header Date. By the endpoint's own clock the pause is right even
            if one of the two clocks is wrong.
    """
    if 200 <= status < 300:
        return Outcome(1)
    reason = f"HTTP {status}{_excerpt(body)}"
    if 300 <= status < 400:
        reason = (
            f"HTTP {status}, a redirect to {headers.get('location', 'nowhere')[:200]}, which is not followed: correct the url"
        )
    elif 400 <= status < 500 and status not in _OF_THE_ENDPOINT:
        return Outcome(0, refused=reason)
    answered_at = _read_date(headers.get("date")) or now
    return Outcome(0, failure=EndpointFailure(reason, read_retry_after(headers.get("retry-after"), answered_at)))


def read_retry_after(value: str | None, now: datetime) -> float | None:
    """Returns the seconds of a header Retry-After, a number or a date, at most a day; None: there is none that can be read."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        seconds = float(value) if len(value) < 10 else LONGEST_RETRY_AFTER_SECONDS
    else:
        at = _read_date(value)
        if at is None:  # neither: the pause is ours to choose
            return None
        seconds = (at - now).total_seconds()
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_SECONDS)


def _read_date(value: str | None) -> datetime | None:
    """The date of a header; None: there is none, or it can't be read."""
    try:
        at = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):  # or a year of twenty digits
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _excerpt(body: bytes) -> str:
    """The beginning of the answer, in one line of plain characters."""
    text = " ".join("".join(one if one.isprintable() else " " for one in body.decode("utf-8", "replace")).split())
    return f": {text[:_EXCERPT_CHARACTERS]}" if text else ""
