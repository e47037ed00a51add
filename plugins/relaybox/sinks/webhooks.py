"""Sends messages to a URL, one request each, and says what the endpoint made of them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import httpx

from relaybox import __version__
from relaybox.cloudevents import binary_headers, payload_bytes, write_structured
from relaybox.sinks.bodies import sink_attributes, webhook_body
from relaybox.sinks.http_answers import classify_answer
from relaybox.sinks.outcomes import EndpointFailure, Outcome
from relaybox.sinks.signatures import sign

if TYPE_CHECKING:
    from relaybox.consumer import Message
    from relaybox.routes import Webhook


class Content(NamedTuple):
    """What is posted of a message. `headers`: those that say what the body is; names in small letters."""

    body: bytes
    headers: dict[str, str]


def write_content(message: Message, webhook: Webhook) -> Content:
    """Returns what is posted of a message, as the key `cloudevents` of the webhook says."""
    if webhook.cloudevents == "none":
        body = webhook_body(message, store=webhook.store.name, stream=webhook.stream)
        return Content(body, {"content-type": "application/json"})
    attributes = sink_attributes(message, webhook.stream)
    if webhook.cloudevents == "structured":
        return Content(write_structured(message, attributes), {"content-type": "application/cloudevents+json; charset=utf-8"})
    return Content(payload_bytes(message), binary_headers(attributes))


class WebhookSender:
    """Posts messages one after the other. It follows no redirect, and reads no more of an answer than its limit."""

    batch_messages = 1

    def __init__(self, webhook: Webhook, secrets: Sequence[bytes]) -> None:
        self._webhook, self._secrets = webhook, secrets
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log the URL of each request, whose query may have a token
        self._runner = asyncio.Runner()  # of asyncio, since only a task can be ended at a time that no server can put off
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            # a connection for each message: on one that is kept, an answer too many would count for the next message
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=0),
            timeout=httpx.Timeout(webhook.read_seconds, connect=webhook.connect_seconds),
        )

    def send(self, messages: Sequence[Message]) -> Outcome:
        """Posts one message."""
        (message,) = messages
        return self._runner.run(self._post(message))

    def close(self) -> None:
        """Ends the connection."""
        with self._runner:
            self._runner.run(self._client.aclose())

    async def _post(self, message: Message) -> Outcome:
        webhook = self._webhook
        content = write_content(message, webhook)
        answer = _Answer()
        try:
            async with asyncio.timeout(webhook.total_seconds):
                await self._receive(answer, content, str(message.message_id))
        except TimeoutError:
            answer.ended_with = f"no answer within total_seconds, which is {webhook.total_seconds}"
        except httpx.TimeoutException as error:
            answer.ended_with = (
                f"{_words(error)}: connect_seconds is {webhook.connect_seconds}, read_seconds {webhook.read_seconds}"
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            answer.ended_with = _words(error)
        if answer.status is None:
            return Outcome(0, failure=EndpointFailure(answer.ended_with))
        return classify_answer(answer.status, answer.headers, answer.body, datetime.now(UTC))

    async def _receive(self, answer: _Answer, content: Content, message_id: str) -> None:
        """Fills the answer: its status counts, whatever becomes of the rest."""
        timestamp = int(time.time())
        headers = {
            **content.headers,
            "accept-encoding": "identity",
            "idempotency-key": message_id,
            "user-agent": f"relaybox/{__version__}",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._secrets, message_id, timestamp, content.body),
        }
        async with self._client.stream("POST", self._webhook.url, content=content.body, headers=headers) as response:
            answer.status = response.status_code
            answer.headers = {name.lower(): value for name, value in response.headers.items()}
            async for part in response.aiter_raw():
                answer.body += part[: self._webhook.answer_bytes - len(answer.body)]
                if len(answer.body) >= self._webhook.answer_bytes:
                    return  # the rest is not read: the connection is closed


class _Answer:
    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended_with = ""


def _words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".rstrip(": ").split())[:500]
