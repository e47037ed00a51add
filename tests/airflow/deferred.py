"""Executes a task as Airflow does: what it defers is waited for by its trigger, as the triggerer would read it from the database."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.sdk.exceptions import TaskDeferred

from tests.support.patience import patience

WAIT_SECONDS = 60.0


def execute(operator: Any, context: Any, *, deferred: Callable[[TaskDeferred], object] = lambda _: None) -> Any:
    """Returns what the task returns in the end. Calls `deferred` each time that it has given its slot back, before the trigger runs."""
    step = partial(operator.execute, context)
    while True:
        try:
            return step()
        except TaskDeferred as waiting:
            deferred(waiting)
            kwargs = {**(waiting.kwargs or {}), "event": asyncio.run(_event_of(waiting))}
            step = partial(operator.resume_execution, next_method=waiting.method_name, next_kwargs=kwargs, context=context)


async def _event_of(waiting: TaskDeferred) -> Any:
    path, kwargs = waiting.trigger.serialize()
    assert isinstance(waiting.timeout, timedelta | None)
    module, _, name = path.rpartition(".")
    trigger_class = getattr(importlib.import_module(module), name)
    async with aclosing(trigger_class(**kwargs).run()) as events:
        return (await asyncio.wait_for(anext(events), patience(WAIT_SECONDS))).payload
