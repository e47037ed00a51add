"""Sinks at work while their processes, endpoints, sessions and subscriptions go and come: at least once, never lost, in order."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.sink_life import KafkaTarget, SinkLife, Target, WebhookTarget
from tests.support.endpoint import endpoint
from tests.support.kafka_cluster import kafka_cluster
from tests.support.sinks import SECRET, WHERE, kafka, webhook
from tests.support.world import World, wait_until

LIVES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "2"))


@pytest.fixture(params=["webhook", "kafka"])
def target(request: pytest.FixtureRequest, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """An endpoint, with its sink of two lanes in relaybox.yaml."""
    monkeypatch.setenv(WHERE, SECRET)
    common = {"lanes": 2, "open_after_failures": 1, "nack_limit": 5}
    with ExitStack() as stack:
        if request.param == "webhook":
            here = stack.enter_context(endpoint())
            webhook(world, here.url, **common)
            yield WebhookTarget(here)
        else:
            brokers = stack.enter_context(kafka_cluster())
            brokers.create("flights", 1)
            kafka(world, brokers.servers, delivery_seconds=2, batch_messages=4, **common)
            yield KafkaTarget(brokers)


@pytest.mark.timeout(120)
def test_a_short_life_of_a_webhook(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the endpoint has confirmed, then the endpoint fails, then the subscription is dropped under its run."""
    monkeypatch.setenv(WHERE, SECRET)
    with endpoint() as here:
        webhook(world, here.url, lanes=2, open_after_failures=1, nack_limit=5)
        life = SinkLife(world, WebhookTarget(here), tmp_path, random.Random(7))
        try:
            life.deliver()
            life.start_run("sink.delivered:1=kill")
            wait_until(lambda: len(here.requests) > 0, "the endpoint is asked")
            life.settle()
            life.fail()
            before = len(here.requests)
            life.deliver()
            wait_until(lambda: len(here.requests) > before, "the endpoint fails")
            life.settle()
            life.begin_anew()
            life.finish()
        finally:
            life.close()


@pytest.mark.thorough
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", range(LIVES))
def test_whatever_becomes_of_a_sink(world: World, target: Target, tmp_path: Path, number: int) -> None:
    """RELAYBOX_SEED repeats a life; RELAYBOX_TEST_EXAMPLES of them, of 30 steps."""
    seed = int(os.environ.get("RELAYBOX_SEED", random.randrange(10**6)))
    print(f"RELAYBOX_SEED={seed}")
    life = SinkLife(world, target, tmp_path, random.Random(seed))
    try:
        life.live(30)
        life.finish()
    finally:
        life.close()
