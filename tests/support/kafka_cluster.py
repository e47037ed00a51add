"""The mock cluster of librdkafka: brokers that speak Kafka's protocol over TCP, and fail as a test says.

The tested producer is another client of the same library, in its own right: nothing of it is replaced.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from relaybox.local.mock_kafka import mock_brokers
from tests.support.patience import Deadline, patience

PRODUCE = 0
"""The number of the request with which a client produces."""

MSG_SIZE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED = 10, 29


_FAILING = (
    ("rd_kafka_mock_broker_set_down", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32)),
    ("rd_kafka_mock_broker_set_up", ctypes.c_int, (ctypes.c_void_p, ctypes.c_int32)),
    (
        "rd_kafka_mock_push_request_errors_array",
        None,
        (ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)),
    ),
)


@dataclass
class KafkaCluster:
    """Three brokers. A topic that is asked for is made, with `partitions`."""

    servers: str
    _library: Any
    _handle: int

    def stop(self) -> None:
        """Takes all brokers down."""
        for broker in (1, 2, 3):
            assert self._library.rd_kafka_mock_broker_set_down(self._handle, broker) == 0

    def start(self) -> None:
        """Brings them up again."""
        for broker in (1, 2, 3):
            assert self._library.rd_kafka_mock_broker_set_up(self._handle, broker) == 0

    def create(self, topic: str, partitions: int) -> None:
        """Makes a topic."""
        assert self._library.rd_kafka_mock_topic_create(self._handle, topic.encode(), partitions, 1) == 0

    def refuse(self, *codes: int) -> None:
        """Answers the next requests to produce with these errors; 0: with none."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._handle, PRODUCE, len(codes), array)

    def read(self, topic: str, count: int) -> list[Message]:
        """Reads at least so many records from the beginning of a topic, and what comes with them."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": "false"})
        partitions = consumer.list_topics(topic, timeout=patience(10)).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        found: list[Message] = []
        deadline = Deadline(60)
        try:
            while len(found) < count:
                assert not deadline.is_over(), f"{len(found)} of {count} records of {topic}"
                found += consumer.consume(500, timeout=0.3)
            found += consumer.consume(500, timeout=0.5)
        finally:
            consumer.close()
        assert [one.error() for one in found if one.error()] == []
        return found


@contextmanager
def kafka_cluster() -> Iterator[KafkaCluster]:
    """Three brokers on free ports, while the block runs."""
    with mock_brokers() as (servers, library, handle):
        for function, result, arguments in _FAILING:
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
        yield KafkaCluster(servers, library, handle)
