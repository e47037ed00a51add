"""Threads of the page's own. Airflow's endpoints share one pool, and its scheduler and tasks wait when it is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from fastapi import HTTPException, status

from relaybox.airflow.page.turns import without_turn

THREADS = 2
"""For rights and drawings, which compute: more would only take turns."""

PATIENCE_SECONDS = 10.0

_POOL = ThreadPoolExecutor(THREADS, thread_name_prefix="relaybox-page")

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


async def in_page_thread(
    call: Callable[_Parameters, _Result], *arguments: _Parameters.args, **named: _Parameters.kwargs
) -> _Result:
    """What a function returns that may compute, or ask Airflow's auth manager; it asks no store."""
    future = _POOL.submit(partial(call, *arguments, **named))
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), PATIENCE_SECONDS)
    except TimeoutError as error:
        raise busy() from error


async def answered(future: Future[_Result], seconds: float, *, keep: bool = False) -> _Result:
    """The result of a thread; 503 if it does not come in time. `keep`: others wait for it too, so it is never cancelled."""
    waiting: asyncio.Future[_Result] = asyncio.wrap_future(future)
    async with without_turn():
        done, _ = await asyncio.wait({waiting}, timeout=seconds)
    if not done:
        if not keep:
            waiting.cancel()
        raise busy()
    return waiting.result()


def busy() -> HTTPException:
    """The answer to a request that would have to wait for too long."""
    headers: dict[str, Any] = {"Retry-After": "5"}
    return HTTPException(
        status.HTTP_503_SERVICE_UNAVAILABLE, "The stores, or too many others who look at them, keep this page waiting.", headers
    )
