"""The rules of the sections `webhooks` and `kafka`: which stream of which store is delivered to which endpoint.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import member, reached_stores, stream_of, texts

LANE_KEYS = ("sender", "key")
DELAYED_WAYS = ("hold", "pass", "ignore")
RECORD_KEYS = ("sender", "key")
CLOUDEVENTS_MODES = ("none", "binary", "structured")

WHERE_SECRETS_ARE = r"env:[A-Za-z_][A-Za-z0-9_]{0,99}|connection:[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
WHERE_SECRETS_ARE_RULE = (
    "where the secret is: env:NAME, an environment variable, or connection:ID, the password of an Airflow connection; "
    "never the secret itself"
)
URL_RULE = "a URL such as https://example.com/hooks/flights: with a host, without a login, a fragment or blanks"

_OWN_PROPERTIES = {
    "acks": "no such property: the producer waits for all replicas in sync",
    "request.required.acks": "no such property: the producer waits for all replicas in sync",
    "bootstrap.servers": "the key bootstrap_servers",
    "metadata.broker.list": "the key bootstrap_servers",
    "delivery.timeout.ms": "the key delivery_seconds",
    "message.timeout.ms": "the key delivery_seconds",
    "enable.idempotence": "no such property: it is always on",
    "enable.gapless.guarantee": "no such property: what fails is sent again from the store",
    "transactional.id": "no such property: the acknowledgement is in Postgres, where no transaction of Kafka reaches",
}
_PROPERTY = re.compile(r"[a-z][a-z0-9._-]{1,100}")
_SECRET_PROPERTY = re.compile(r"password|secret|\.pem$|oauthbearer\.config|sasl\.jaas", re.IGNORECASE)
_SERVERS = re.compile(r"[^\s,/@=]{1,250}:[0-9]{1,5}(,[^\s,/@=]{1,250}:[0-9]{1,5}){0,31}")


def broken_url(value: object) -> str | None:
    """The rule that the URL of a webhook breaks, or None."""
    if not isinstance(value, str) or len(value) > 2000 or not re.fullmatch(r"https?://[!-~]+", value):
        return URL_RULE
    try:
        parts = urlsplit(value)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:  # brackets without an end, or a port that is none
        return URL_RULE
    is_fine = parts.hostname and port_is_fine and "@" not in parts.netloc and "#" not in value and "\\" not in value
    return None if is_fine else URL_RULE


def broken_servers(value: object) -> str | None:
    """The rule that the list of brokers breaks, or None."""
    return None if isinstance(value, str) and _SERVERS.fullmatch(value) else "one or more host:port, with commas in between"


def broken_target(value: object) -> str | None:
    """The rule that the name of a topic of Kafka breaks, or None."""
    rule = 'a topic of Kafka, 1 to 200 of A-Z a-z 0-9 _ . -, in which {topic} stands for the topic of the message: "shop.{topic}"'
    if not isinstance(value, str):
        return rule
    return None if re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", value.replace("{topic}", "t")) else rule


def broken_property_name(value: object) -> str | None:
    """The rule that the name of a property of librdkafka breaks, or None."""
    if not isinstance(value, str) or not _PROPERTY.fullmatch(value):
        return "the name of a property of librdkafka, such as compression.type"
    if value in _OWN_PROPERTIES:
        return _OWN_PROPERTIES[value]
    return "no secret in this file: name it in the section secrets" if _SECRET_PROPERTY.search(value) else None


def broken_secret_property(value: object) -> str | None:
    """The rule that the name of a secret property breaks, or None."""
    if not isinstance(value, str) or not _PROPERTY.fullmatch(value) or value in _OWN_PROPERTIES:
        return "the name of a property of librdkafka, such as sasl.password"
    return None


def broken_property_value(value: object) -> str | None:
    """The rule that the value of a property breaks, or None."""
    if isinstance(value, str) and re.fullmatch(r"[^\x00-\x1f\x7f]{1,4000}", value):
        return None
    return 'a text of 1 to 4000 characters in one line, in quotes, such as "lz4" or "true"'


def sink_contradictions(
    stores: Mapping[str, object], routes: Mapping[str, object], section: str, sinks: Mapping[str, object]
) -> Iterator[Problem]:
    """A sink reads a stream that its store delivers, or a topic that no stream has as its name. A webhook without TLS says so."""
    for name, sink in sinks.items():
        store, stream, topic = (member(sink, key) for key in ("store", "stream", "topic"))
        delivered = _delivered(routes, store)
        if isinstance(store, str) and store not in stores:
            text = f"got {show(store)}; expected a store of this file"
            yield Problem((section, name, "store"), text, unknown=store, known=list(stores))
        elif isinstance(stream, str) and isinstance(store, str) and stream not in delivered:
            text = f"got {show(stream)}, which store {show_name(store)} does not deliver; expected a stream that arrives there"
            yield Problem((section, name, "stream"), text, unknown=stream, known=list(delivered))
        elif isinstance(stream, str) and isinstance(topic, str) and not delivered[stream].takes(topic):
            text = f"got {show(topic)}, which stream {show_name(stream)} does not have; expected a topic of it"
            yield Problem(
                (section, name, "topic"), text, unknown=topic, known=sorted(delivered[stream].topics - delivered.keys())
            )
        elif isinstance(store, str) and isinstance(stream, str) and isinstance(topic, str) and topic in delivered:
            text = f"got {show(topic)}, which is the name of a stream of store {show_name(store)} too: the sink would read that stream"
            yield Problem((section, name, "topic"), f"{text}; expected {_instead_of_topic(stream, topic, delivered)}")
        url, plain_http = member(sink, "url"), member(sink, "plain_http")
        if isinstance(url, str) and url.startswith("http://") and plain_http is not True:
            text = "a URL without TLS: others on the way can read and change what is sent"
            yield Problem((section, name, "url"), f"{text}; expected https://, or plain_http: true beside it")
        if member(sink, "delayed") == "pass" and member(sink, "hold_sender") is True:
            text = "got pass: later messages of a sender before its delayed one; expected hold or ignore beside hold_sender: true"
            yield Problem((section, name, "delayed"), text)
        connect, total = member(sink, "connect_seconds"), member(sink, "total_seconds")
        if type(connect) is int and type(total) is int and total < connect:
            yield Problem((section, name, "total_seconds"), f"got {total}; expected at least connect_seconds, which is {connect}")


def _instead_of_topic(stream: str, topic: str, delivered: Mapping[str, _Stream]) -> str:
    """What to write where the topic of a sink has the name of a stream: a subscription to that name is one to the stream."""
    if topic == stream and delivered[stream].topics == {topic} and not delivered[stream].is_open:
        return "no key topic: the stream has no other one"
    rename = (
        f"another name for stream {show_name(topic)} (key stream of its routes), which it may get before it delivers a message"
    )
    return f"no key topic, for all topics of the stream, or {rename}" if topic == stream else rename


class _Stream:
    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.is_open = False

    def takes(self, topic: str) -> bool:
        return self.is_open or topic in self.topics


def _delivered(routes: Mapping[str, object], store: object) -> dict[str, _Stream]:
    """The streams that a store delivers, with their topics."""
    found: dict[str, _Stream] = {}
    for name, route in routes.items():
        stream = stream_of(name, route)
        if store in reached_stores(route) and isinstance(stream, str):
            one = found.setdefault(stream, _Stream())
            one.topics.update(texts(member(route, "topics")))
            one.is_open = one.is_open or member(route, "topics_by_subscription") is True
    return found
