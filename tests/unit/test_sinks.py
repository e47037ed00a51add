"""The decisions of sinks, without an endpoint: when the breaker lets a lane send, how fast, and what a signature signs."""

from __future__ import annotations

import sys
from base64 import b64encode
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from relaybox.errors import ConfigurationError
from relaybox.routes import load_routes
from relaybox.sinks.breaker import PROBE_POLL_SECONDS, Breaker
from relaybox.sinks.outcomes import EndpointFailure
from relaybox.sinks.pace import Pace
from relaybox.sinks.running import open_senders
from relaybox.sinks.signatures import read_secret, sign

EXAMPLE = Path(__file__).parents[2] / "docs/examples/relaybox.yaml"
FAILURE = EndpointFailure("HTTP 503")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def breaker(clock: Clock, **options: float) -> Breaker:
    values = {"open_after": 3, "max_pause_seconds": 60, **options}
    return Breaker(**values, clock=clock, jitter=lambda: 1.0)  # type: ignore[arg-type]


def fail(one: Breaker, clock: Clock, lane: object = "a") -> float:
    """Waits for the turn of a lane, and lets its attempt fail; returns the pause."""
    clock.now += one.seconds_until_turn(lane)
    assert one.seconds_until_turn(lane) == 0
    return one.failed(FAILURE).seconds


def test_pauses_double_up_to_the_longest() -> None:
    clock = Clock()
    one = breaker(clock)
    assert [fail(one, clock) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_pause_has_jitter_and_is_never_longer_than_the_longest() -> None:
    """From half of it to the whole: workers that failed together do not come back together."""
    for jitter, expected in ((0.0, 0.5), (0.5, 0.75), (1.0, 1.0)):
        one = Breaker(open_after=3, max_pause_seconds=60, clock=Clock(), jitter=lambda jitter=jitter: jitter)
        assert one.failed(FAILURE).seconds == expected


def test_a_breaker_opens_after_its_failures_and_closes_with_a_delivered_message() -> None:
    clock = Clock()
    one = breaker(clock)
    for is_open in (False, False, True):
        fail(one, clock)
        assert (one.is_failing, one.is_open) == (True, is_open)
    assert one.succeeded()
    assert (one.is_failing, one.is_open, one.failure) == (False, False, None)
    assert one.seconds_until_turn("b") == 0
    assert not one.succeeded(), "it had not failed"
    assert fail(one, clock) == 1, "the pauses begin anew"


def test_while_it_fails_one_lane_tries() -> None:
    """The others ask again soon; when the lane has nothing to send, another one may try."""
    clock = Clock()
    one = breaker(clock)
    fail(one, clock)
    assert one.seconds_until_turn("a") == 1.0
    clock.now += 1.0
    assert one.seconds_until_turn("a") == 0
    assert one.seconds_until_turn("b") == PROBE_POLL_SECONDS
    one.leave("b")
    assert one.seconds_until_turn("b") == PROBE_POLL_SECONDS, "it is a's turn"
    one.leave("a")
    assert one.seconds_until_turn("b") == 0


def test_lanes_that_fail_together_count_as_one() -> None:
    clock = Clock()
    one = breaker(clock)
    assert [one.failed(FAILURE).failure_count for _ in range(4)] == [1, 1, 1, 1]
    clock.now += 1
    assert one.failed(FAILURE).failure_count == 2


def test_what_the_endpoint_asks_for_is_waited_for() -> None:
    """Also beyond max_pause_seconds; a shorter time than the pause does not shorten it."""
    clock = Clock()
    one = breaker(clock)
    assert one.failed(EndpointFailure("HTTP 429", 3000.0)).seconds == 3000
    other = breaker(clock)
    assert other.failed(EndpointFailure("HTTP 429", 0.0)).seconds == 1


def test_a_new_process_goes_on_where_the_one_before_was() -> None:
    clock = Clock()
    one = breaker(clock)
    one.restore(FAILURE, 5, 30.0)
    assert (one.is_open, one.failure, one.seconds_until_turn("a")) == (True, FAILURE, 30.0)
    assert fail(one, clock) == 32


@given(st.lists(st.floats(0, 3), min_size=2, max_size=30))
def test_a_pace_is_never_exceeded(gaps: list[float]) -> None:
    """Whenever lanes ask: two messages are at least 1/rate apart, and time that was not used is not saved up."""
    clock = Clock()
    pace, times = Pace(2.0, clock=clock), []
    for gap in gaps:
        clock.now += gap
        times.append(clock.now + pace.take())
    assert all(later - earlier >= 0.5 - 1e-9 for earlier, later in pairwise(times))


def test_a_batch_takes_the_turns_of_its_messages() -> None:
    clock = Clock()
    pace = Pace(10.0, clock=clock)
    assert pace.take(20) == 0
    assert pace.take(1) == pytest.approx(2.0)
    assert Pace(None, clock=clock).take(1000) == 0


@given(st.binary(min_size=24, max_size=64), st.binary(max_size=200))
def test_a_signature_is_that_of_the_specification(secret: bytes, body: bytes) -> None:
    """As the receivers' library makes it."""
    text = f"whsec_{b64encode(secret).decode()}"
    at = datetime(2026, 7, 1, tzinfo=UTC)
    decoded = body.decode("latin-1")
    expected = Verifier(text).sign("msg_1", at, decoded)
    assert sign([read_secret(text, "env:S")], "msg_1", int(at.timestamp()), decoded.encode()) == expected


@pytest.mark.parametrize(("kind", "library", "module"), [("webhook", "httpx", "webhooks"), ("kafka", "confluent_kafka", "kafka")])
def test_a_library_that_is_missing_is_told(kind: str, library: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it. Reading the file, and listing, needs none."""
    routes = load_routes(EXAMPLE)
    sink = next(one for one in routes.sinks if one.kind == kind)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"relaybox.sinks.{module}", raising=False)
    with pytest.raises(ConfigurationError, match=rf"{library}.* Install relaybox\[{module}\] where the sink runs"):
        open_senders(sink, lambda where: where, count=1)


@pytest.mark.parametrize("text", ["", "whsec_", "not base64!", "whsec_pässwörd", "whsec_QQ==", b64encode(b"x" * 65).decode()])
def test_what_is_no_secret_is_told_without_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="secret env:S: it is ") as refused:
        read_secret(text, "env:S")
    assert len(text) < 7 or text not in str(refused.value)
