"""Chosen dead letters of a subscription given to its consumers again, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.subscriptions.approvals import PinnedSubscription


class _Chosen(NamedTuple):
    dead_letter_id: int
    state: str
    attempts: int


@dataclass(frozen=True)
class RedriveResult:
    """The result for the chosen dead letters.

    Attributes:
        redriven: how many dead letters are given again, with those that waited behind the chosen ones.
        passed_over: the number of each chosen letter that was left as it is, and why.
    """

    redriven: int
    passed_over: Mapping[int, str]


def redrive_dead_letters(
    store: Store,
    subscription: str,
    dead_letters: Mapping[int, int],
    *,
    reason: str,
    on_behalf_of: str,
    pinned: PinnedSubscription,
) -> RedriveResult:
    """Redrives those of the dead letters that are still as they were when a person decided on them, in the order of their stream positions.

    `dead_letters` has the number of each, and its attempts at that time: one that was refused again since has more. One transaction; safe
    to repeat. `pinned` is the subscription that the decision was about.

    Raises:
        ApprovalOutdated: the subscription is not the pinned one.
        NotSubscribed, RequestRefused: no reason.
        DeadLetterNotOpen: one waits behind an open one that was not chosen.
    """
    redriven, passed_over = 0, dict.fromkeys(dead_letters, "is not in this store any more")
    with store_session(store, f"redriving dead letters of {subscription}", application_name="relaybox redrive") as session:
        session.value("select set_config('relaybox.on_behalf_of', %s, true)", on_behalf_of)
        session.call("relaybox_internal.require_pinned", subscription, *pinned)
        chosen = session.rows(
            _Chosen,
            "select dead_letter_id, state, attempts from relaybox.dead_letters where dead_letter_id = any(%s) and "
            "subscription = %s order by stream_position",
            *(list(dead_letters), subscription),
        )
        for dead_letter_id, state, attempts in chosen:
            if state != "open" or attempts != dead_letters[dead_letter_id]:
                passed_over[dead_letter_id] = (
                    f"was refused again: {attempts} attempts" if state == "open" else f"is {state} already"
                )
                continue
            del passed_over[dead_letter_id]
            redriven += sum(
                session.values(
                    "select relaybox.redrive(%s, %s, dead_letter_id) from relaybox.dead_letters where dead_letter_id = "
                    "%s and state = 'open'",
                    *(subscription, reason, dead_letter_id),
                )
            )  # a letter that waited behind an earlier one follows it, and is not open any more
        session.commit()
    return RedriveResult(redriven, passed_over)
