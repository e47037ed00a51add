"""Sends messages to Kafka with an idempotent producer, and says which of them the brokers have confirmed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from relaybox.cloudevents import HEADER_PREFIX, event_attributes, is_event, payload_bytes
from relaybox.errors import ConfigurationError
from relaybox.exact_json import write_json
from relaybox.log_events import warn
from relaybox.sinks.outcomes import EndpointFailure, Outcome

if TYPE_CHECKING:
    from relaybox.consumer import Message
    from relaybox.routes import KafkaSink

FLUSH_GRACE_SECONDS = 5.0
"""How long librdkafka may take to report what it has given up."""

_OF_THE_MESSAGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG})
"""What the producer or a broker says of one message, whatever it is sent with. All else may end without a change of the message."""


class KafkaSender:
    """Produces messages together, and waits for the report of each. After a failure the next ones have a new producer.

    So nothing of a producer that failed is in a buffer any more. A request of it may still be on its way: its messages come twice.
    """

    def __init__(self, sink: KafkaSink, properties: Mapping[str, str]) -> None:
        self._sink = sink
        self._properties = {
            "compression.type": "lz4",
            "linger.ms": "5",
            "client.id": f"relaybox {sink.subscription}",
            "log_level": "2",  # errors come to error_cb: else each attempt to connect is a line on stderr
            **sink.properties,
            **properties,
            "bootstrap.servers": sink.bootstrap_servers,
            "enable.idempotence": "true",
            "acks": "all",
            "delivery.timeout.ms": str(1000 * sink.delivery_seconds),
        }
        self.batch_messages = sink.batch_messages
        self._troubles = _Troubles()
        self._producer: Producer | None = self._make()

    def send(self, messages: Sequence[Message]) -> Outcome:
        """Produces messages, and returns when each is confirmed or has failed."""
        reports = _Reports(len(messages))
        try:
            producer = self._open()
            for number, message in enumerate(messages):
                if not self._produce(producer, message, reports.of(number)):
                    reports.refuse(number)
                    break
            self._wait(producer, reports)
        except KafkaException as error:
            reports.fail(error.args[0])
        outcome = reports.outcome()
        if outcome.delivered_count:
            self._troubles.end()
        if outcome.failure is not None:
            self.close()
        return outcome

    def close(self) -> None:
        """Drops what the producer has not sent, and its connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(FLUSH_GRACE_SECONDS)

    def _open(self) -> Producer:
        if self._producer is None:
            self._producer = self._make()
        return self._producer

    def _make(self) -> Producer:
        """Makes a producer. It begins to connect, and waits for nothing.

        Raises:
            ConfigurationError: a property is unknown, or its value is wrong.
        """
        try:
            return Producer({**self._properties, "error_cb": self._tell})
        except KafkaException as error:
            raise ConfigurationError(
                f"kafka {self._sink.name}: {error.args[0].str()}.",
                next_step="Correct properties or secrets: the list is in the documentation of librdkafka, CONFIGURATION.md.",
            ) from error

    def _tell(self, error: KafkaError) -> None:
        """What librdkafka says between messages: that a broker is down, for example. It says so with each attempt to connect.

        The reports decide.
        """
        if not self._troubles.begins(error.name(), error.str()):
            return
        warn("kafka_client_error", subscription=self._sink.subscription, code=error.name(), error=error.str())

    def _produce(self, producer: Producer, message: Message, on_delivery: Callable[[KafkaError | None, Any], None]) -> bool:
        """Gives one message to the producer; False: it refuses the message."""
        sink = self._sink
        while True:
            is_empty = len(producer) == 0
            try:
                producer.produce(
                    sink.to_topic.replace("{topic}", message.topic),
                    value=payload_bytes(message),
                    key=message.sender if sink.key_by == "sender" else message.key,
                    headers=record_headers(message, sink.stream, cloudevents=sink.cloudevents),
                    timestamp=int(1000 * message.sent_at.timestamp()),
                    on_delivery=on_delivery,
                )
            except BufferError:  # the buffer of the producer is full: what it has sent makes room
                if is_empty:
                    on_delivery(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "larger than queue.buffering.max.kbytes"), None)
                    return False
                producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() in _OF_THE_MESSAGE:
                    on_delivery(error.args[0], None)
                    return False
                raise
            else:
                return True

    def _wait(self, producer: Producer, reports: _Reports) -> None:
        """Waits for all reports. Each comes within delivery_seconds."""
        ends_at = time.monotonic() + self._sink.delivery_seconds + FLUSH_GRACE_SECONDS
        while reports.open_count and (rest := ends_at - time.monotonic()) > 0:
            producer.poll(min(rest, 0.5))


class _Troubles:
    """What brokers are told to have now: each trouble of a broker is told once, until brokers have confirmed a message."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def begins(self, code: str, text: str) -> bool:
        """Whether it was not told yet. The text begins with the broker; its end counts attempts and milliseconds."""
        trouble = (code, text.partition(" ")[0])
        if trouble in self._told:
            return False
        self._told.add(trouble)
        return True

    def end(self) -> None:
        """Brokers have confirmed a message."""
        self._told.clear()


class _Reports:
    """What became of each message of a batch. Callbacks come while the producer is polled, in the thread that polls."""

    def __init__(self, count: int) -> None:
        self._errors: list[KafkaError | None] = [None] * count
        self._confirmed = [False] * count
        self._count = count
        self.open_count = count
        self._failure: KafkaError | None = None

    def of(self, number: int) -> Callable[[KafkaError | None, Any], None]:
        """The callback of a message."""

        def report(error: KafkaError | None, _: Any) -> None:
            self._errors[number], self._confirmed[number] = error, error is None
            self.open_count -= 1

        return report

    def refuse(self, number: int) -> None:
        """The producer takes none after this one."""
        self.open_count -= self._count - number - 1
        self._count = number + 1

    def fail(self, error: KafkaError) -> None:
        """The producer itself failed."""
        self._failure = error

    def outcome(self) -> Outcome:
        """The first messages that are confirmed, and what became of the next one."""
        delivered = next((number for number in range(self._count) if not self._confirmed[number]), self._count)
        if delivered == self._count and self._failure is None:
            return Outcome(delivered)
        error = self._failure or self._errors[delivered]
        if error is None:
            return Outcome(delivered, failure=EndpointFailure("no report of the message within delivery_seconds"))
        reason = f"{error.name()}: {error.str()}"
        if error.code() in _OF_THE_MESSAGE and self._failure is None:
            return Outcome(delivered, refused=reason)
        return Outcome(delivered, failure=EndpointFailure(reason))


def record_headers(message: Message, stream: str, *, cloudevents: bool) -> list[tuple[str, str | bytes | None]]:
    """Returns the headers of a record: those of the message, then ours. A text is as it was sent, another value is its JSON."""
    own = [(name, value if isinstance(value, str) else write_json(value)) for name, value in (message.headers or {}).items()]
    ours = {
        "relaybox-message-id": str(message.message_id),
        "relaybox-topic": message.topic,
        "relaybox-sender": message.sender,
        "relaybox-epoch": str(message.epoch),
        "relaybox-index": str(message.index),
        "relaybox-stream-position": str(message.stream_position),
        "relaybox-sent-at": message.sent_at.isoformat(),
        "relaybox-replayed": str(message.replayed).lower(),
    }
    if cloudevents:
        if is_event(message):  # its attributes are written below, once
            own = [(name, value) for name, value in own if not name.startswith(HEADER_PREFIX)]
        attributes = event_attributes(message, stream)
        ours["content-type"] = str(attributes.pop("datacontenttype"))
        ours |= {
            f"{HEADER_PREFIX}{name}": value if isinstance(value, str) else write_json(value) for name, value in attributes.items()
        }
    return [(name, value.encode("utf-8", "surrogatepass")) for name, value in (*own, *ours.items())]
