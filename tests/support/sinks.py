"""Sinks of a test: what relaybox.yaml says of them, and a run of one."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

import yaml

from relaybox.routes import KafkaSink, Webhook
from relaybox.sinks.running import SinkRun, SinkRunner
from relaybox.sinks.secrets import find_in_environment
from tests.support.streams import STORE
from tests.support.world import World

SECRET = f"whsec_{b64encode(b'0123456789abcdef0123456789abcdef').decode()}"
OLDER_SECRET = f"whsec_{b64encode(b'an older secret of 32 bytes ....').decode()}"
WHERE = "RELAYBOX_TEST_WEBHOOK_SECRET"


def write_sink(world: World, section: str, name: str, values: dict[str, Any]) -> None:
    """Writes a sink into relaybox.yaml."""
    document = yaml.safe_load(world.path.read_text())
    document.setdefault(section, {})[name] = values
    world.path.write_text(yaml.safe_dump(document))


def webhook(world: World, url: str, **changes: Any) -> Webhook:
    """The webhook `billing` of the stream `flights` in the store `hub`, with short pauses; its secret is in the environment."""
    os.environ.setdefault(WHERE, SECRET)
    values = {
        "store": STORE,
        "stream": "flights",
        "url": url,
        "secrets": [f"env:{WHERE}"],
        "plain_http": True,
        "connect_seconds": 1,
        "read_seconds": 1,
        "total_seconds": 2,
        "retry_seconds": 0,
        "nack_limit": 2,
        "max_pause_seconds": 1,
        "open_after_failures": 2,
        **changes,
    }
    write_sink(world, "webhooks", "billing", values)
    return world.routes.webhook("billing")


def kafka(world: World, bootstrap_servers: str, **changes: Any) -> KafkaSink:
    """The sink `warehouse` of the same stream."""
    values = {
        "store": STORE,
        "stream": "flights",
        "bootstrap_servers": bootstrap_servers,
        "retry_seconds": 0,
        "nack_limit": 2,
        "delivery_seconds": 5,
        "max_pause_seconds": 1,
        "open_after_failures": 2,
        **changes,
    }
    write_sink(world, "kafka", "warehouse", values)
    return world.routes.kafka_sink("warehouse")


def deliver_waiting(sink: Webhook | KafkaSink, **options: Any) -> SinkRun:
    """A run that ends when nothing waits, in this process."""
    return SinkRunner(sink, find_in_environment, until_empty=True).run(**options)
