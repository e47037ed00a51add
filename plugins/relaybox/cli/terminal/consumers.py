"""Subscriptions, and the roles that may use them, act on them or read topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_time

if TYPE_CHECKING:
    from relaybox.stores.readers.reader_problems import ReaderProblem
    from relaybox.subscriptions.bindings import SubscriptionBinding
    from relaybox.subscriptions.operators import StreamOperator
    from relaybox.subscriptions.subscriptions import SubscriptionStatus
    from relaybox.subscriptions.topic_grants import TopicGrant


def show_subscriptions(found: Sequence[SubscriptionStatus], problems: Sequence[ReaderProblem]) -> None:
    """One line per subscription; below the table what is wrong with them, and with readers that have none."""
    wrong = {(one.store, one.subscription, one.stream): one for one in problems}
    numbers = ("lanes", "leased", "done", "last", "behind", "detached", "dead letters")
    table = new_table("store", "subscription", "stream", "topic", *numbers, "state", right=numbers)
    for one in found:
        problem = wrong.get((one.store, one.subscription, one.stream))
        state = f"replay of {one.replay_of}" if one.replay_of else "replaying" if one.replaying else "live"
        if problem is not None and not one.replay_of:
            state = problem.state if state == "live" else f"{state}; {problem.state}"
        if (delay := delay_of(one)) is not None:
            state += f"; {delay}"
        done = (one.done_stream_position, one.last_stream_position, one.stream_positions_behind, one.detached_stream_positions)
        counts = (one.lanes, one.leased_lanes, *done, one.dead_letters)
        table.add_row(one.store, one.subscription, one.stream, one.topic or "all", *map(show_count, counts), state)
    open_console().print(table if found else "No subscriptions.")
    for problem in problems:
        print_text(str(problem))


def delay_of(one: SubscriptionStatus) -> str | None:
    """What a subscription waits for until messages are due; None: nothing."""
    waiting = [f"{amount(one.held_lanes, 'lane')} held"] if one.held_lanes else []
    waiting += [f"{amount(one.delayed_messages, 'message')} not due"] if one.delayed_messages else []
    return f"{' and '.join(waiting)}, next at {show_time(one.due_at)}" if waiting and one.due_at is not None else None


def show_bindings(found: Sequence[SubscriptionBinding]) -> None:
    """One line per role that a subscription is bound to."""
    table = new_table("store", "subscription", "role", "bound", "by", "state")
    for one in found:
        state = "in effect" if one.is_enforced else "no effect: bind_subscriptions is off"
        table.add_row(
            *(one.store, one.subscription, one.role, show_time(one.bound_at), one.bound_by),
            state if one.role_exists else "there is no such role",
        )
    open_console().print(table if found else "No subscription is bound to a role.")


def show_grants(found: Sequence[TopicGrant]) -> None:
    """One line per role and topic that was granted to it."""
    table = new_table("store", "topic", "role", "granted", "by", "state")
    for one in found:
        state = "in effect" if one.is_enforced else "no effect: bind_topics is off"
        if not one.topic_exists:
            state += "; no stream has carried the topic yet"
        table.add_row(
            *(one.store, one.topic, one.role, show_time(one.granted_at), one.granted_by),
            state if one.role_exists else "there is no such role",
        )
    open_console().print(table if found else "No topic is granted to a role.")


def show_operators(found: Sequence[StreamOperator]) -> None:
    """One line per role that is an operator of a stream."""
    table = new_table("store", "stream", "role", "bound", "by", "state")
    for one in found:
        state = "in effect" if one.is_enforced else "no effect: bind_subscriptions is off"
        if not one.stream_exists:
            state += "; there is no such stream"
        if not one.role_is_operator:
            # members of the role that are members of relaybox_operator too are operators
            reason = f"the role is no member of relaybox_operator. Run: {grant_operator(one.role)}"
            state = f"{state.replace('in effect', 'no effect for the role itself')}; {reason}"
        table.add_row(
            *(one.store, one.stream, one.role, show_time(one.bound_at), one.bound_by),
            state if one.role_exists else "there is no such role",
        )
    open_console().print(table if found else "No role is an operator of a stream.")


def grant_operator(role: str) -> str:
    """The statement that a binding of an operator needs, of a superuser or a role that may grant relaybox_operator."""
    name = '"' + role.replace('"', '""') + '"'
    return f"grant relaybox_operator to {name};"
