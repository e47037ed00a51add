"""Handlers whose call does no work: a coroutine or generator is refused, and no message is acknowledged or refused."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection

from relaybox import errors
from relaybox.consumer import Consumer, Message
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def three(world: World) -> World:
    deliver(world, 3)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1, lease_seconds => 600)")
    return world


async def coroutine(connection: Connection, message: Message) -> None: ...


def generator(connection: Connection, message: Message) -> Iterator[None]:
    yield


async def async_generator(connection: Connection, message: Message) -> AsyncIterator[None]:
    yield


class Awaited:
    async def __call__(self, connection: Connection, message: Message) -> None: ...


def in_loop(connection: Connection, message: Message) -> Any:
    """What a client library gives that runs its work elsewhere."""

    class Later:
        def __await__(self) -> Iterator[None]:
            yield

    return Later()


def hidden(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function, as far as one can see without a call."""
    return lambda *given: handler(*given)  # noqa: PLW0108


def state(world: World) -> tuple[Any, ...]:
    (cursor,) = world.query(STORE, "select done_stream_position, worker from relaybox.lag('billing')")
    return (*cursor, world.value(STORE, "select count(*) from relaybox.dead_letters"))


@pytest.mark.parametrize(
    "handler",
    [coroutine, generator, async_generator, Awaited(), functools.partial(coroutine)],
    ids=["async", "generator", "async generator", "async __call__", "partial"],
)
def test_a_handler_that_does_no_work_when_called_is_refused_before_a_fetch(three: World, handler: Callable[..., Any]) -> None:
    with (
        pytest.raises(errors.HandlerRefused, match="a call of it does nothing"),
        Consumer(STORE, "billing", until_empty=True) as worker,
    ):
        worker.run(handler)
    assert three.value(STORE, "select fetch_count from relaybox_internal.cursor") == 0
    assert state(three) == (0, None, 0)


@pytest.mark.parametrize("commit_every", [1, 3])
@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (hidden(coroutine), "coroutine"),
        (hidden(generator), "generator"),
        (hidden(async_generator), "async_generator"),
        (in_loop, "Later"),
    ],
    ids=["coroutine", "generator", "async generator", "awaitable"],
)
@pytest.mark.filterwarnings("error")
def test_work_that_has_yet_to_run_ends_the_worker_and_acknowledges_nothing(
    three: World, handler: Callable[..., Any], kind: str, commit_every: int
) -> None:
    """Even a nack_limit of 1 makes no dead letter of it, and a repaired program gets all messages at once."""
    done: list[int] = []

    def second_fails(connection: Connection, message: Message) -> Any:
        done.append(message.stream_position)
        return handler(connection, message) if len(done) > 1 else None

    said = f"stream position 2: the handler .*second_fails returned a {kind}"
    with (
        pytest.raises(errors.HandlerRefused, match=said),
        Consumer(STORE, "billing", until_empty=True, commit_every=commit_every) as worker,
    ):
        worker.run(second_fails)
    assert done == [1, 2]
    acknowledged = 1 if commit_every == 1 else 0
    assert state(three) == (acknowledged, None, 0)
    again: list[int] = []
    with Consumer(STORE, "billing", until_empty=True) as worker:
        worker.run(lambda _, message: again.append(message.stream_position))
    assert again == [1, 2, 3][acknowledged:]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_handler_that_ends_its_program_makes_a_dead_letter_as_a_kill_does(three: World, kind: type[BaseException]) -> None:
    """The lane is not given back, which would take the fetch out of the count; one worker's name stands for the end of the lease."""

    def ends(connection: Connection, message: Message) -> None:
        if message.stream_position == 1:
            raise kind

    for _ in range(20):
        try:
            with Consumer(STORE, "billing", until_empty=True, worker="w") as worker:
                worker.run(ends)
        except kind:
            continue
        break
    assert three.query(STORE, "select stream_position, reason from relaybox.dead_letters") == [(1, "killed_its_worker")]
    assert state(three) == (3, None, 1)
