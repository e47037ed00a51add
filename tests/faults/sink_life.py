"""A webhook or a Kafka sink whose processes are killed and frozen at any step, while its endpoint fails, its sessions end and its
subscription is dropped and made again: a life whose steps a seed chooses.

What the endpoint has confirmed is the reference: every message at least once since the subscription was made, with one id; and to a
webhook the first time in the order of its sender.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from relaybox import errors
from relaybox.failpoints import SINK_FAILPOINTS
from relaybox.routes import load_routes
from relaybox.sinks.running import SinkRunner
from relaybox.sinks.secrets import find_in_environment
from tests.support.endpoint import Behaviour, Endpoint, Handler, answer, garbage, hang, reset
from tests.support.kafka_cluster import TOPIC_AUTHORIZATION_FAILED, KafkaCluster
from tests.support.patience import patience
from tests.support.sinks import WHERE
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

SENDERS = 3
RUNS_AT_MOST = 2
ENDED, FAILED, BROKEN = 3, 4, 5
"""Exit codes of a run: the subscription was ended; the endpoint fails, or the store could not be reached; anything else."""


class Target(Protocol):
    """An endpoint, as the life sees it."""

    subscription: str
    keeps_order: bool

    def fail(self, chance: random.Random) -> None:
        """Takes no message any more, in one of its ways."""

    def heal(self) -> None:
        """Takes messages again."""

    def confirmed(self) -> Sequence[str]:
        """The ids of all messages that it has confirmed, in order, each as often as it came."""


@dataclass
class WebhookTarget:
    """A real HTTP server."""

    endpoint: Endpoint
    taken: list[str] = field(default_factory=list)
    subscription: str = "webhook.billing"
    keeps_order: bool = True

    def __post_init__(self) -> None:
        self.endpoint.always = self._take

    def _take(self, handler: Handler) -> None:
        self.taken.append(handler.headers["webhook-id"])
        answer(204)(handler)

    def _take_and_say_nothing(self, handler: Handler) -> None:
        """The worker can't know that the message was taken."""
        self.taken.append(handler.headers["webhook-id"])
        reset(handler)

    def fail(self, chance: random.Random) -> None:
        ways: list[Behaviour] = [answer(500), answer(429, retry_after="1"), hang, reset, garbage, self._take_and_say_nothing]
        self.endpoint.always = chance.choice(ways)

    def heal(self) -> None:
        self.endpoint.always = self._take

    def confirmed(self) -> Sequence[str]:
        return list(self.taken)


@dataclass
class KafkaTarget:
    """librdkafka's brokers, with a topic of one partition."""

    brokers: KafkaCluster
    subscription: str = "kafka.warehouse"
    keeps_order: bool = False
    is_down: bool = False

    def fail(self, chance: random.Random) -> None:
        if chance.random() < 0.5 and not self.is_down:
            self.brokers.stop()
            self.is_down = True
        else:
            self.brokers.refuse(*[TOPIC_AUTHORIZATION_FAILED] * chance.randint(1, 3))

    def heal(self) -> None:
        if self.is_down:
            self.brokers.start()
            self.is_down = False

    def confirmed(self) -> Sequence[str]:
        """What readers of the topic find: it may be more than the producer was told of."""
        self.heal()
        reader = Consumer({"bootstrap.servers": self.brokers.servers, "group.id": "counter"})
        _, count = reader.get_watermark_offsets(TopicPartition("flights", 0), timeout=patience(10))
        reader.close()
        records = sorted(self.brokers.read("flights", count), key=lambda one: one.offset() or 0) if count else []
        return [dict(record.headers() or [])["relaybox-message-id"].decode() for record in records]  # type: ignore[union-attr]


@dataclass
class SinkLife:
    """The runs of a sink, and what becomes of them.

    Attributes:
        world: of the test; its relaybox.yaml has the sink.
        target: its endpoint.
        name: of the sink in the file.
        directory: for failpoints.
        chance: chooses.
    """

    world: World
    target: Target
    directory: Path
    chance: random.Random
    runs: list[Any] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    since: int = 0
    """How many messages the endpoint had confirmed when the subscription was made."""
    _begins_anew: bool = False
    _count: int = 0

    def deliver(self) -> None:
        deliver(self.world, self.chance.randint(1, 8), senders=SENDERS)
        self.world.query(STORE, "select relaybox_internal.wake_consumers(s.stream_id) from relaybox_internal.stream s")

    def start_run(self, failpoints: str | None = None) -> None:
        """A process, which is killed at a step, or by nobody."""
        self._reap()
        if len(self.runs) < RUNS_AT_MOST:
            step, hit = self.chance.choice(list(SINK_FAILPOINTS)), self.chance.randint(1, 3)
            chosen = f"{step}:{hit}=kill" if self.chance.random() < 0.6 else ""
            self._start(chosen if failpoints is None else failpoints)

    def _start(self, failpoints: str) -> None:
        self._count += 1
        environment = {name: os.environ[name] for name in ("PGSERVICEFILE", WHERE) if name in os.environ}
        what = Run(
            str(self.world.path), environment, self.target.subscription, failpoints, str(self.directory), self._begins_anew
        )
        run = _forkserver().Process(target=_run, args=(what,), daemon=True)
        run.start()
        self.runs.append(run)

    def kill_run(self) -> None:
        if self.runs:
            run = self.runs.pop(self.chance.randrange(len(self.runs)))
            run.kill()
            run.join()

    def freeze_run(self) -> None:
        """A run stands still, and its leases end: another one gets its lanes. Later it goes on as if nothing had happened."""
        if self.runs:
            self._signal(self.chance.choice(self.runs), signal.SIGSTOP)
            self._end_leases()

    def wake_runs(self) -> None:
        for run in self.runs:
            self._signal(run, signal.SIGCONT)

    def _signal(self, run: Any, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(run.pid, number)

    def terminate_sessions(self) -> None:
        self.world.query(
            STORE,
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'",
        )

    def fail(self) -> None:
        self.target.fail(self.chance)

    def heal(self) -> None:
        self.target.heal()

    def retry(self) -> None:
        """A person says that the endpoint is repaired."""
        with suppress(Exception):
            self.world.query(STORE, f"select relaybox.clear_endpoint_failure('{self.target.subscription}')")

    def begin_anew(self) -> None:
        """Somebody ends the subscription under its runs; a run that is told to makes it again, from the first message."""
        if self.world.query(STORE, "select 1 from relaybox.subscriptions where subscription = %s", self.target.subscription):
            self.world.query(STORE, f"select relaybox.unsubscribe('{self.target.subscription}', 'a test')")
            self._end_runs()
            self.since = len(self.target.confirmed())
            self._begins_anew = True
            self._start("")
            wait_until(self._is_subscribed, "a run subscribes anew", deadline_seconds=20)
            self._begins_anew = False

    def _is_subscribed(self) -> bool:
        self._reap()
        if not self.runs:
            self._start("")
        found = self.world.query(STORE, "select 1 from relaybox.subscriptions where subscription = %s", self.target.subscription)
        return bool(found)

    def settle(self) -> None:
        """The endpoint works, and everything is delivered."""
        self.wake_runs()
        self.target.heal()
        last = self.world.value(STORE, "select last_stream_position from relaybox_internal.stream where stream = 'flights'")

        def is_done() -> bool:
            self._reap()
            if not self.runs:
                self._start("")
            self.retry()
            self._end_leases_of_the_dead()
            query = "select min(done_stream_position) from relaybox.subscriptions where subscription = %s"
            return bool(self.world.value(STORE, query, self.target.subscription) == last)

        wait_until(is_done, f"everything is delivered after {', '.join(self.steps[-12:])}", deadline_seconds=40, poll_seconds=0.1)
        found = list(self.breaches())
        assert not found, found

    def breaches(self) -> Iterator[str]:
        """At quiet: a message that the endpoint has not, and the order of a sender."""
        query = "select message_id::text, sender, stream_position from relaybox.read_stream('flights', 0, 1000000)"
        messages = {message_id: (sender, position) for message_id, sender, position in self.world.query(STORE, query)}
        confirmed = self.target.confirmed()[self.since :]
        if strangers := sorted(set(confirmed) - messages.keys()):
            yield f"{len(strangers)} messages that nobody sent: {strangers[:3]}"
        if lost := sorted(messages[one][1] for one in messages.keys() - set(confirmed)):
            yield f"{len(lost)} of {len(messages)} messages were acknowledged and never arrived: stream positions {lost[:5]}"
        letters = self.world.value(STORE, "select count(*) from relaybox.dead_letters")
        if letters:
            yield f"{letters} dead letters, and the endpoint has refused none"
        if not self.target.keeps_order:
            return
        firsts: dict[str, list[int]] = {}
        for message_id in dict.fromkeys(confirmed):
            sender, position = messages[message_id]
            firsts.setdefault(sender, []).append(position)
        for sender, positions in firsts.items():
            if inverted := [pair for pair in pairwise(positions) if pair[0] > pair[1]]:
                yield f"sender {sender}: {inverted[:3]} came the other way round"

    def live(self, steps: int) -> None:
        for _ in range(steps):
            name = self.chance.choice(STEPS)
            self.steps.append(name)
            print(name, end=" ", flush=True)
            getattr(self, name)()

    def finish(self) -> None:
        self.deliver()
        self.settle()
        self._end_runs()

    def _end_runs(self) -> None:
        self.wake_runs()
        for run in self.runs:
            run.terminate()
        for run in self.runs:
            run.join(patience(30))
            assert not run.is_alive(), "a run does not end at SIGTERM"
        self._reap()

    def close(self) -> None:
        for run in self.runs:
            run.kill()
            run.join()

    def _reap(self) -> None:
        for run in [one for one in self.runs if not one.is_alive()]:
            self.runs.remove(run)
            assert run.exitcode in (0, ENDED, FAILED, -signal.SIGKILL, -signal.SIGTERM), f"a run ended with {run.exitcode}"

    def _end_leases(self) -> None:
        """As if the lease, of a minute at least, were over."""
        self.world.query(STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() where worker is not null")

    def _end_leases_of_the_dead(self) -> None:
        if not any(run.is_alive() for run in self.runs[:-1]):
            self._end_leases()


STEPS = (
    *("deliver", "deliver", "start_run", "start_run", "start_run", "kill_run", "freeze_run", "wake_runs"),
    *("terminate_sessions", "fail", "fail", "heal", "heal", "retry", "begin_anew", "settle"),
)


@cache
def _forkserver() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    return context


@dataclass(frozen=True)
class Run:
    """`relaybox webhook run`, or `relaybox kafka run`, until it is stopped: which file, and at which failpoint it dies.

    A fork server has the environment of its own start, before that of this test: what the test has set goes along.
    """

    config: str
    environment: dict[str, str]
    subscription: str
    failpoints: str
    directory: str
    begins_anew: bool


def _run(run: Run) -> None:
    os.environ |= run.environment
    if run.failpoints:
        os.environ |= {
            "RELAYBOX_ENVIRONMENT": "test",
            "RELAYBOX_FAILPOINTS": run.failpoints,
            "RELAYBOX_FAILPOINTS_DIRECTORY": run.directory,
        }
    kind, name = run.subscription.split(".")
    routes = load_routes(run.config)
    sink = routes.webhook(name) if kind == "webhook" else routes.kafka_sink(name)
    try:
        SinkRunner(sink, find_in_environment, until_empty=False).run(begin_anew=run.begins_anew)
    except errors.NotSubscribed:
        os._exit(ENDED)
    except (errors.EndpointUnavailable, errors.StoreUnreachable, errors.StoreBusy):
        os._exit(FAILED)
