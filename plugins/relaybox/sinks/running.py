"""Runs a sink: its workers, the senders to its endpoint, and what they share."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from contextvars import copy_context
from dataclasses import dataclass

from relaybox.consumer import UnreadLane
from relaybox.consumer.services import open_engine
from relaybox.consumer.stop_signals import stopped_by_signals
from relaybox.errors import ConfigurationError
from relaybox.log_events import emit
from relaybox.routes import KafkaSink, Sink, Webhook
from relaybox.sinks.breaker import Breaker
from relaybox.sinks.outcomes import Sender
from relaybox.sinks.pace import Pace
from relaybox.sinks.secrets import FindSecret
from relaybox.sinks.signatures import read_secret
from relaybox.sinks.subscribing import subscribe_sink
from relaybox.sinks.worker import SinkWorker


@dataclass(frozen=True)
class SinkRun:
    """What a run did.

    Attributes:
        delivered_count: messages that the endpoint has confirmed, and that are acknowledged.
        refused_count: refusals of the endpoint, several of one message too.
        dead_letter_count: those of them that made a dead letter.
        unread: lanes that had more when all workers had ended because they found nothing.
    """

    sink: str
    subscription: str
    delivered_count: int
    refused_count: int
    dead_letter_count: int
    unread: tuple[UnreadLane, ...]


class SinkRunner:
    """A run of a sink, in this process. `stop` ends it after what is under way.

    Args:
        sink: of relaybox.yaml.
        find_secret: reads the secrets that the sink names.
        until_empty: end when nothing waits, or when the endpoint's breaker is open; else run until `stop`.
    """

    def __init__(
        self,
        sink: Sink,
        find_secret: FindSecret,
        *,
        until_empty: bool,
    ) -> None:
        self._sink, self._find_secret = sink, find_secret
        self._until_empty = until_empty
        self._workers: Sequence[SinkWorker] = ()
        self._is_stopped = False

    def stop(self, *_: object) -> None:
        """Ends the run after what is sent now. SIGTERM and SIGINT call it while run() works in the main thread."""
        self._is_stopped = True
        for worker in self._workers:
            worker.stop()

    def run(self, *, begin_anew: bool = False) -> SinkRun:
        """Delivers what waits, or all that comes until `stop`.

        Args:
            begin_anew: make the subscription again if it was ended.

        Raises:
            EndpointUnavailable: the endpoint takes no message now, and the run does not wait for it.
            NotSubscribed, ConfigurationError: as subscribe_sink(); or a secret is missing, or a library.
            StoreUnreachable: the store can't be reached.
        """
        sink = self._sink
        with ExitStack() as resources:
            senders = [
                resources.enter_context(closing(sender)) for sender in open_senders(sink, self._find_secret, count=sink.lanes)
            ]
            engine = open_engine(sink.store.service, sink.subscription)
            subscribe_sink(sink, engine, begin_anew=begin_anew)
            breaker = Breaker(open_after=sink.open_after_failures, max_pause_seconds=sink.max_pause_seconds)
            pace, run = Pace(sink.messages_per_second), uuid.uuid4().hex[:12]
            self._workers = [
                SinkWorker(
                    engine,
                    sink,
                    sender,
                    breaker=breaker,
                    pace=pace,
                    until_empty=self._until_empty,
                    worker=f"{sink.subscription} {run} {number}",
                )
                for number, sender in enumerate(senders, start=1)
            ]
            with stopped_by_signals(self.stop):
                self._deliver()
        ended = SinkRun(
            sink=sink.name,
            subscription=sink.subscription,
            delivered_count=sum(worker.acknowledged_count for worker in self._workers),
            refused_count=sum(worker.refused_count for worker in self._workers),
            dead_letter_count=sum(worker.dead_letter_count for worker in self._workers),
            unread=self._workers[0].unread,
        )
        emit(
            "sink_ended",
            subscription=sink.subscription,
            delivered=ended.delivered_count,
            refused=ended.refused_count,
            dead_letters=ended.dead_letter_count,
        )
        return ended

    def _deliver(self) -> None:
        """Runs the workers, each in a thread. What ends one with an error ends all; the first error is raised."""
        if self._is_stopped:
            return
        with self._workers[0] as first:
            first.restore_breaker()
        with ThreadPoolExecutor(len(self._workers), thread_name_prefix=self._sink.subscription) as threads:
            running = [threads.submit(copy_context().run, _deliver_in, worker) for worker in self._workers]
            ended, open_ones = wait(running, return_when=FIRST_EXCEPTION)
            if open_ones:
                self.stop()
        for one in (*ended, *open_ones):
            one.result()
        if self._until_empty and not self._is_stopped:
            with self._workers[0] as first:
                first.tell_unread()


def _deliver_in(worker: SinkWorker) -> None:
    with worker:
        worker.deliver()


def open_senders(sink: Sink, find_secret: FindSecret, *, count: int) -> list[Sender]:
    """Makes a sender for each worker. Waits for no endpoint.

    Raises:
        ConfigurationError: a secret is missing or is none, a property is wrong, or the library of the sink is not installed.
    """
    try:
        if isinstance(sink, Webhook):
            from relaybox.sinks.webhooks import WebhookSender

            secrets = [read_secret(find_secret(where), where) for where in sink.secrets]
            return [WebhookSender(sink, secrets) for _ in range(count)]
        if isinstance(sink, KafkaSink):
            from relaybox.sinks.kafka import KafkaSender

            properties = {name: find_secret(where) for name, where in sink.secrets.items()}
            return [KafkaSender(sink, properties) for _ in range(count)]
    except ImportError as error:
        extra = "webhooks" if sink.kind == "webhook" else "kafka"
        raise ConfigurationError(
            f"{sink.kind} {sink.name}: {error}.", next_step=f"Install relaybox[{extra}] where the sink runs."
        ) from error
    raise AssertionError(f"no sender for {type(sink).__name__}")
