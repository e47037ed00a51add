"""Senders of causal routes: the clock of what a sender has received, which its messages carry."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from relaybox.message_times import MessageTime
from relaybox.outbox.puts import Clock, Payload, Producing, PutSteps, put_steps, run_steps

_INDEX_END = 2**63

# the counter first: it is locked from here on, and with it the epoch
_NUMBER = "select relaybox.next_index({sender}), relaybox.sender_epoch({sender})"


class SenderClock:
    """What one sender of a causal route has received: the clock of its next message."""

    def __init__(self, sender: str, clock: Clock | None = None) -> None:
        """Continues with a saved clock; by default nothing was received yet."""
        self.sender = sender
        self._heard: dict[str, tuple[int, int]] = {}
        self._merge(clock or {})

    @property
    def clock(self) -> dict[str, list[int]]:
        """The newest [epoch, index] received, by sender; sends only, and never the sender itself."""
        return {sender: list(number) for sender, number in self._heard.items()}

    def delivered(self, message: Any) -> None:
        """Merges a message that was read from the stream: it, and what its sender had received.

        Args:
            message: a row of relaybox.read_stream: a mapping, or with attributes, with sender, epoch, index and clock.

        Raises:
            ValueError: its sender gave it no index (epoch 0): nothing can be made to wait for it. Or its clock has an entry that is no
                clock's: a causal stream sets such a message aside. Nothing of it is merged.
        """
        sender, epoch, index, clock = (_field(message, name) for name in ("sender", "epoch", "index", "clock"))
        if epoch < 1:
            raise ValueError(
                f"the message of sender {sender} at index {index} has no index of its own (epoch 0): no causal order"
            )
        try:
            self._merge({**(clock or {}), sender: [epoch, index]})
        except ValueError as error:
            raise ValueError(f"clock of sender {sender} at index {index}: {error}") from None

    def put_steps(self, topic: str, payload: Payload, **options: Any) -> PutSteps[UUID]:
        """The steps of CausalSender.put()."""
        index, epoch = yield _NUMBER, {"sender": self.sender}
        numbers = {"index": index, "epoch": epoch, "clock": self.clock}
        return (yield from put_steps(topic, self.sender, payload, **options, **numbers))

    def _merge(self, clock: Clock) -> None:
        numbers = {sender: _number(sender, entry) for sender, entry in clock.items()}
        for sender, number in numbers.items():
            if sender != self.sender:  # its own messages are in order by their index
                self._heard[sender] = max(number, self._heard.get(sender, number))


class CausalSender(SenderClock):
    """One sender of a causal route: its messages name what it had received, so that no consumer reads an answer before its question.

    The sender is declared gapless at its store. Each process that sends as it and receives for it keeps one of these, tells it
    every message that it reads from the stream, and saves `clock` with its cursor, or reads the stream again after a restart.
    Not for several threads at once.
    """

    def put(
        self,
        session: Producing,
        topic: str,
        payload: Payload,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: UUID | None = None,
        deliver_after: MessageTime | None = None,
        expires_at: MessageTime | None = None,
    ) -> UUID:
        """Sends a message that comes after everything delivered so far, numbered by relaybox.next_index().

        From here on other transactions of this sender wait until the caller's ends; if it is rolled back, the number is free again.
        """
        times: dict[str, Any] = {"deliver_after": deliver_after, "expires_at": expires_at}
        return run_steps(session, self.put_steps(topic, payload, key=key, headers=headers, message_id=message_id, **times))


def _number(sender: str, entry: Any) -> tuple[int, int]:
    """The epoch and index of an entry. The stream compares some of them as numbers: for it 5.0 is 5.

    Raises:
        ValueError: it is neither an index nor [epoch, index].
    """
    numbers = entry if isinstance(entry, list | tuple) else (1, entry)
    if len(numbers) != 2 or not all(_is_whole(number) for number in numbers):
        raise ValueError(f"the entry of sender {sender} is neither an index nor [epoch, index] of whole numbers from 1")
    return int(numbers[0]), int(numbers[1])


def _is_whole(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return False
    return 1 <= number < _INDEX_END and number == int(number)


def _field(message: Any, name: str) -> Any:
    """A column of a row; SQLAlchemy's rows have a method `index`, so theirs are read by their mapping."""
    message = getattr(message, "_mapping", message)
    return message[name] if isinstance(message, Mapping) else getattr(message, name)
