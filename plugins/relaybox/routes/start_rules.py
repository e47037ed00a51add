"""Where a derivation or an export begins: the texts that the function start_stream_position() of a store takes, or fewer."""

from __future__ import annotations

import re
from datetime import datetime

from relaybox.routes.problems import suggest

WORDS = ("earliest", "latest")
_STREAM_POSITION = re.compile(r"[0-9]{1,18}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_RULE = 'a text in quotes: earliest, latest, a stream position such as "1200", or a time such as "2026-07-01 12:00+00"'


def broken_start(value: object) -> str | None:
    """The rule that a start breaks, or None. Of the times that Postgres reads, those are taken that mean the same every day."""
    if not isinstance(value, str):
        return _RULE
    if value in WORDS or _STREAM_POSITION.fullmatch(value) or _is_time(value):
        return None
    return f"{_RULE}. {suggest(value, WORDS)}" if value.isalpha() else _RULE


def _is_time(value: str) -> bool:
    if _TIME.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:  # such as the 31st of June
        return False
    return True
