"""What an endpoint made of messages: delivered, refused, or not taken now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relaybox.errors import EndpointUnavailable

if TYPE_CHECKING:
    from relaybox.consumer import Message


@dataclass(frozen=True)
class EndpointFailure:
    """The endpoint takes no message now: no message is at fault.

    Attributes:
        reason: what it answered.
        retry_after_seconds: how long it asks to be left alone; None: it does not say.
    """

    reason: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of messages that were sent together.

    Attributes:
        delivered_count: the first of them that the endpoint has confirmed.
        refused: why the endpoint refuses the next one; None: it does not.
        failure: why it takes no message now; None: it does.
    """

    delivered_count: int
    refused: str | None = None
    failure: EndpointFailure | None = None


class Sender(Protocol):
    """Sends messages to one endpoint. It belongs to one thread."""

    @property
    def batch_messages(self) -> int:
        """Messages that are sent together, at most."""

    def send(self, messages: Sequence[Message]) -> Outcome:
        """Returns when the endpoint has answered, or its time is over."""

    def close(self) -> None:
        """Ends its connections."""


def as_error(endpoint: str, subscription: str, failure: EndpointFailure, next_step: str) -> EndpointUnavailable:
    """The failure as the error with which a task ends."""
    return EndpointUnavailable(
        f"subscription {subscription}: endpoint {endpoint} takes no message now: {failure.reason}. Its messages wait.",
        next_step=next_step,
    )
