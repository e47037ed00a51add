"""What a reader of a stream is told by its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from relaybox.errors import ConfigurationError

PARTITION_MESSAGES = 100_000
_SERVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
TEXTS = ("topic", "sender", "key")
_KNOWN = ("store", "stream", "start", "through", *TEXTS, "partition_messages", "max_messages_per_batch", "subscription")


@dataclass(frozen=True)
class ReadOptions:
    """Which messages are read.

    Attributes:
        store: the libpq service of the store, on the driver and on each executor.
        stream: its name.
        start: earliest, latest, a stream position, or a time of delivery.
        through: the end of a batch, in the same forms; None: the newest message.
        only: values of topic, sender and key; the store sends only messages that have them. None of a name: all.
        partition_messages: stream positions that a task reads, at most.
        max_messages_per_batch: stream positions of a micro-batch, at most; None: no limit. Of a streaming query.
        subscription: what a streaming query acknowledges, so that the store knows how far it is; None: nothing.
    """

    store: str
    stream: str
    start: str = "earliest"
    through: str | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    partition_messages: int = PARTITION_MESSAGES
    max_messages_per_batch: int | None = None
    subscription: str | None = None


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Returns the options of a reader; Spark gives names in lower case.

    Raises:
        ConfigurationError: an option is missing, unknown, or of the other kind of query; or it is a secret.
    """
    options = {name.lower(): value for name, value in given.items()}
    other = ("through",) if streaming else ("max_messages_per_batch", "subscription")
    known = [name for name in _KNOWN if name not in other]
    refuse_secrets(options)
    for name in options:
        if name not in known:
            kind = "streaming query" if streaming else "batch"
            raise refuse(f"a {kind} has no option {name}.", f"Its options: {', '.join(known)}.")
    for name in ("store", "stream"):
        if not options.get(name):
            raise refuse(f"option {name} is missing.", f'Give .option("{name}", ...).')
    require_service(options["store"])
    limit = options.get("max_messages_per_batch")
    return ReadOptions(
        store=options["store"],
        stream=options["stream"],
        start=options.get("start", "earliest"),
        through=options.get("through"),
        only={name: options[name] for name in TEXTS if name in options},
        partition_messages=_number("partition_messages", options.get("partition_messages", str(PARTITION_MESSAGES))),
        max_messages_per_batch=None if limit is None else _number("max_messages_per_batch", limit),
        subscription=options.get("subscription"),
    )


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise refuse(f"option {name} is {value!r}.", "Give a whole number from 1.")
    return int(value)


def refuse_secrets(options: Mapping[str, str]) -> None:
    """Raises ConfigurationError for an option that is part of a login."""
    for name in options:
        if "password" in name or name in ("user", "host", "url", "dsn"):
            raise refuse(
                f"option {name} is not taken: Spark shows options in its pages and logs.",
                "Write the login into the libpq service file that PGSERVICEFILE names, and give its section as option store.",
            )


def require_service(store: str) -> None:
    """Raises ConfigurationError for a store that is no name of a service, such as a connection string, whose password Spark would show."""
    if not _SERVICE.fullmatch(store):
        raise refuse(
            "option store is no name of a libpq service.",
            "Write the login into the libpq service file that PGSERVICEFILE names, and give its section as option store.",
        )


def refuse(told: str, next_step: str) -> ConfigurationError:
    """Returns the error of an option or a column."""
    return ConfigurationError(f"format relaybox: {told}", next_step=next_step)
