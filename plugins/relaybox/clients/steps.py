"""Work that asks for I/O and does none: a generator yields calls, and who drives it makes them, in a thread or in an event loop.

So the decisions are written once, and are the same for every library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

Result = TypeVar("Result")

Call = Callable[[], Any]
"""What a step asks for; in an event loop it returns an awaitable."""

Steps = Generator[Any, Any, Result]


def make_call(steps: Steps[Any], call: Call) -> Any:
    """Makes a call, tells the steps how it ended, and returns what they ask for next.

    Raises:
        StopIteration: the steps have ended; its value is their result.
    """
    try:
        answer = call()
    except BaseException as error:  # noqa: BLE001  # the steps decide, also about KeyboardInterrupt
        return steps.throw(error)
    return steps.send(answer)


async def await_call(steps: Steps[Any], call: Callable[[], Awaitable[Any]]) -> Any:
    """As make_call(), in an event loop. A cancellation is told to the steps too.

    Raises:
        StepsEnded: the steps have ended. A coroutine can't raise StopIteration.
    """
    try:
        try:
            answer = await call()
        except BaseException as error:  # noqa: BLE001  # the steps decide, also about a cancellation
            return steps.throw(error)
        return steps.send(answer)
    except StopIteration as ended:
        raise StepsEnded(ended.value) from None


class StepsEnded(Exception):
    """The steps have ended; `result` is what they returned."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


def drive(steps: Steps[Result]) -> Result:
    """Makes the calls of steps that hand nothing out; returns their result."""
    try:
        call = next(steps)
        while True:
            call = make_call(steps, call)
    except StopIteration as ended:
        result: Result = ended.value
        return result


async def drive_async(steps: Steps[Result]) -> Result:
    """As drive(), in an event loop."""
    try:
        call = next(steps)
    except StopIteration as ended:
        finished: Result = ended.value
        return finished
    try:
        while True:
            call = await await_call(steps, call)
    except StepsEnded as ended_steps:
        result: Result = ended_steps.result
        return result
