"""What the triggers that watch a store have in common: the times of their looks, and the stream that those of one store share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping
from contextlib import aclosing
from typing import Any, ClassVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from relaybox.airflow.run_triggers import HopPoll
from relaybox.airflow.store_watch import StoreQuestion, poll_store
from relaybox.routes import Watch


class StoreTrigger(BaseEventTrigger):
    """Looks at a store. All triggers of one class, store and times share one session and one query.

    A class gives `question`, `connection_field`, `own_arguments()` and `filter_shared_stream()`.

    Args:
        poll_seconds: the time between two looks at a store with work.
        max_poll_seconds: the longest time between two looks at a store without work; None: poll_seconds.
        backoff: the factor from one such time to the next.
        listen: whether the session stays open in between, and `notify relaybox_work` ends the wait.
    """

    question: ClassVar[StoreQuestion[Mapping[str, HopPoll]]]
    connection_field: ClassVar[str]
    """The argument that names the store's Airflow connection."""

    def __init__(self, *, poll_seconds: float, max_poll_seconds: float | None, backoff: float, listen: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.poll_seconds = poll_seconds
        self.max_poll_seconds = poll_seconds if max_poll_seconds is None else max_poll_seconds
        self.backoff = backoff
        self.listen = listen

    def own_arguments(self) -> dict[str, Any]:
        """The arguments of the class itself."""
        raise NotImplementedError

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {**self.own_arguments(), **self._times()}

    def shared_stream_key(self) -> Hashable:
        return (self.question.application_name, getattr(self, self.connection_field), *self._times().values())

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Mapping[str, HopPoll]]:
        watch = Watch(kwargs["poll_seconds"], kwargs["max_poll_seconds"], kwargs["backoff"], kwargs["listen"])
        polls: AsyncGenerator[Mapping[str, HopPoll]] = poll_store(kwargs[cls.connection_field], cls.question, watch=watch)
        async with aclosing(polls) as found:
            async for one in found:
                yield one

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Airflow runs shared streams by the methods above; alone, the trigger is its own only subscriber."""
        _, kwargs = self.serialize()
        async for event in self.filter_shared_stream(self.open_shared_stream(kwargs)):
            yield event

    def _times(self) -> dict[str, Any]:
        return {
            "poll_seconds": self.poll_seconds,
            "max_poll_seconds": self.max_poll_seconds,
            "backoff": self.backoff,
            "listen": self.listen,
        }
