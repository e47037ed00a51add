"""Chosen dead letters of a subscription given to its consumers again, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.stores.schema import store_cursor

if TYPE_CHECKING:
    from relaybox.routes import Store


def redrive_letters(store: Store, subscription: str, letters: Sequence[int], *, reason: str, on_behalf_of: str) -> int:
    """Redrives those of the letters that are open, in the order of their places; returns how many, with those that waited behind them.

    One transaction; safe to repeat.

    Raises:
        NotSubscribed, RequestRefused: no reason.
        DeadLetterNotOpen: one waits behind an open one that was not chosen.
    """
    redriven = 0
    with store_cursor(store, f"redriving dead letters of {subscription}", application_name="relaybox redrive") as cursor:
        cursor.execute("select set_config('relaybox.on_behalf_of', %s, true)", (on_behalf_of,))
        cursor.execute(
            "select letter from relaybox.dead_letters where letter = any(%s) and subscription = %s order by place",
            (list(letters), subscription),
        )
        for (letter,) in list(cursor.fetchall()):
            cursor.execute(
                "select relaybox.redrive(%s, %s, letter) from relaybox.dead_letters where letter = %s and state = 'open'",
                (subscription, reason, letter),
            )  # a letter that waited behind an earlier one follows it, and is not open any more
            redriven += sum(count for (count,) in cursor.fetchall())
        cursor.connection.commit()
    return redriven
