"""Numbers of things in sentences: `1 message`, `2,000 messages`."""

from __future__ import annotations


def amount(number: int, singular: str, plural: str | None = None) -> str:
    """Returns the number with the words that fit it. `plural`: where an s at the end of `singular` does not make it."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
