"""Handlers that do nothing when they are called: a coroutine or a generator would be acknowledged, and its work never run."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from relaybox import errors

_NEXT_STEP = (
    "Write it as def, without yield. To await something in it, call asyncio.run(...); to use a generator, iterate over it."
)


def require_plain_handler(handler: Callable[..., object]) -> None:
    """Refuses a handler that can be seen to be `async def` or to yield, before it is called.

    Raises:
        HandlerRefused: a call of it makes a coroutine or a generator.
    """
    for function in (handler, getattr(handler, "__call__", None)):  # noqa: B004  # an object may have an async __call__
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise errors.HandlerRefused(
                f"the handler {_name(handler)} is async: a call of it does nothing.", next_step=_NEXT_STEP
            )
        if inspect.isgeneratorfunction(function):
            raise errors.HandlerRefused(
                f"the handler {_name(handler)} is a generator: a call of it does nothing.", next_step=_NEXT_STEP
            )


def require_finished(handler: Callable[..., object], answer: object, where: str) -> None:
    """Refuses the answer of a handler if its work has yet to run; closes it.

    Args:
        handler: for the error.
        answer: what the handler returned.
        where: subscription and stream position, for the error.

    Raises:
        HandlerRefused: the answer is a coroutine or another awaitable, a generator or an async generator.
    """
    if not (inspect.isawaitable(answer) or inspect.isgenerator(answer) or inspect.isasyncgen(answer)):
        return
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()
    raise errors.HandlerRefused(
        f"{where}: the handler {_name(handler)} returned a {type(answer).__name__}, which nothing runs. Nothing is acknowledged.",
        next_step=_NEXT_STEP,
    )


def _name(handler: Callable[..., object]) -> str:
    return str(getattr(handler, "__qualname__", None) or repr(handler))
