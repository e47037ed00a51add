"""Logins of roles that are bound to subscriptions or streams: what they call, see, and are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.stores.init.one_store import initialise_store
from tests.support.streams import STORE
from tests.support.world import World

CALLS = (
    "select relaybox.subscribe('{0}', 'flights')",
    "select * from relaybox.fetch('{0}')",
    "select * from relaybox.fetch('{0}', 10, 1, '1-0123456789abcdef')",
    "select relaybox.ack('{0}', 1, '1-0123456789abcdef')",
    "select relaybox.nack('{0}', 1, 'no', '1-0123456789abcdef')",
    "select relaybox.release('{0}', '1-0123456789abcdef')",
    "select * from relaybox.lag('{0}')",
    "select relaybox.redrive('{0}', 'why')",
    "select relaybox.redrive('{0}', 'why', 1)",
    "select relaybox.replay('{0}', 'earliest', 'why')",
    "select relaybox.replay('{0}', 'earliest', 'why', second_cursor => true)",
    "select relaybox.replay('{0}', 'earliest', 'why', dry_run => true)",
    "select relaybox.cancel_replay('{0}', 'why')",
    "select relaybox.fetch_one_at_a_time('{0}', 'why')",
    "select relaybox.change_delayed('{0}', 'pass', 'why')",
    "select relaybox.unsubscribe('{0}', 'why')",
)

SEEN = {
    "subscriptions": "select subscription from relaybox.subscriptions",
    "dead_letters": "select subscription from relaybox.dead_letters",
    "replay_ranges": "select subscription from relaybox.replay_ranges",
    "consumer_action": "select subscription from relaybox.consumer_action",
}


def bind_subscriptions(world: World, *, asked: bool | None) -> str:
    """Writes it into relaybox.yaml, or leaves it out, and runs init; what init says about it."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {} if asked is None else {"bind_subscriptions": asked}
    world.path.write_text(yaml.safe_dump(document))
    return initialise_store(world.routes.stores[STORE], world.routes).subscription_binding


def bind(world: World, subscription: str, role: str) -> None:
    assert world.value(STORE, "select relaybox_internal.bind_subscription(%s, %s)", subscription, role)


def unbind(world: World, subscription: str, role: str) -> None:
    assert world.value(STORE, "select relaybox_internal.unbind_subscription(%s, %s)", subscription, role)


@contextmanager
def login(role: str) -> Iterator[Any]:
    """A session of a consumer under its own name, each statement a transaction."""
    connection = psycopg2.connect(service=STORE, user=role, password="secret")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def ask(cursor: Any, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    cursor.execute(statement, arguments or None)
    return list(cursor.fetchall())


def refusal(cursor: Any, statement: str) -> tuple[str, str, str]:
    """Code, message and hint."""
    with pytest.raises(psycopg2.Error) as raised:
        cursor.execute(statement)
    diag = raised.value.diag
    return str(raised.value.pgcode), str(diag.message_primary), str(diag.message_hint)


def letter_of(world: World, subscription: str) -> int:
    return int(world.value(STORE, "select dead_letter_id from relaybox.dead_letters where subscription = %s", subscription))
