"""Webhooks: what an endpoint gets, and what becomes of messages that it refuses, delays, or does not take. Real HTTP, real stores."""

from __future__ import annotations

import hmac
import json
import logging
import re
import signal
import ssl
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from relaybox import errors
from relaybox.cloudevents import event_fields
from relaybox.consumer.session import ConsumerSession
from relaybox.failpoints import SINK_FAILPOINTS
from relaybox.monitoring.finding import Severity
from relaybox.monitoring.overview import read_overview
from relaybox.outbox import put
from relaybox.routes import Webhook
from relaybox.sinks import worker
from relaybox.sinks.http_answers import classify_answer, read_retry_after
from relaybox.sinks.running import SinkRunner
from relaybox.sinks.secrets import find_in_environment
from tests.integration.logged_in import logged_in_as
from tests.support import cli
from tests.support.certificates import Authority
from tests.support.endpoint import Endpoint, answer, drip, endless, endpoint, garbage, hang, reset, twice
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.sinks import OLDER_SECRET, SECRET, WHERE, deliver_waiting, webhook
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

SUBSCRIPTION = "webhook.billing"


@pytest.fixture
def here() -> Iterator[Endpoint]:
    with endpoint() as one:
        yield one


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHERE, SECRET)


def bodies(here: Endpoint) -> list[dict[str, object]]:
    return [json.loads(request.body) for request in here.requests]


def positions(here: Endpoint) -> list[int]:
    """The stream positions that the endpoint was sent, in order, each as often as it was sent."""
    return [body["relaybox"]["stream_position"] for body in bodies(here)]  # type: ignore[index]


def done(world: World) -> int:
    return int(world.value(STORE, f"select min(done_stream_position) from relaybox.lag('{SUBSCRIPTION}')"))


def attempts(world: World) -> int:
    """Refusals that are counted against messages."""
    return int(world.value(STORE, "select coalesce(sum(attempts), 0) from relaybox_internal.failed_attempt"))


def dead_letters(world: World) -> list[tuple[int, str, str]]:
    return world.query(STORE, "select stream_position, reason, detail from relaybox.dead_letters order by stream_position")


def failing(world: World) -> list[tuple[str, int, str]]:
    return world.query(STORE, "select endpoint, failure_count, reason from relaybox_internal.failing_endpoints()")


def test_an_endpoint_gets_each_message_signed_and_with_its_id(world: World, here: Endpoint) -> None:
    """Verified by the receivers' own library of the Standard Webhooks specification."""
    deliver(world, 3)
    run = deliver_waiting(webhook(world, here.url))
    assert (run.delivered_count, run.refused_count, done(world)) == (3, 0, 3)
    for request in here.requests:
        assert Verifier(SECRET).verify(request.body, dict(request.headers)) == json.loads(request.body)
        with pytest.raises(WebhookVerificationError):
            Verifier(SECRET).verify(request.body + b" ", dict(request.headers))
        with pytest.raises(WebhookVerificationError):
            Verifier(OLDER_SECRET).verify(request.body, dict(request.headers))
    sent = world.query(STORE, "select message_id::text from relaybox.read_stream('flights') order by stream_position")
    assert here.ids == [message_id for (message_id,) in sent]
    assert [request.headers["idempotency-key"] for request in here.requests] == here.ids
    first = here.requests[0]
    assert (first.path, first.headers["content-type"]) == ("/hooks", "application/json")


def test_each_secret_signs(world: World, here: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a secret is replaced, receivers with the older and with the newer one accept each message."""
    monkeypatch.setenv("OLDER", OLDER_SECRET)
    deliver(world, 1)
    deliver_waiting(webhook(world, here.url, secrets=[f"env:{WHERE}", "env:OLDER"]))
    (request,) = here.requests
    for secret in (SECRET, OLDER_SECRET):
        Verifier(secret).verify(request.body, dict(request.headers))


def test_a_body_has_the_payload_as_it_was_sent(world: World, here: Endpoint) -> None:
    """JSON character by character, so that no number loses a digit; other texts as a string, bytes as base64."""
    payloads = ['{"a":  0.12345678901234567890123, "a": 1e400}', "no json", "NaN", "[" * 5000, '"\\ud800"']
    world.send(*payloads)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, key, headers, payload_bytes) values ('flights', 'UA', 'k', %s, %s)",
            ('{"tries": 12345678901234567890.5}', b"\x00\xff"),
        )
        connection.commit()
    world.transfer()
    deliver_waiting(webhook(world, here.url))
    first, *texts, last = [request.body for request in here.requests]
    assert b'"data_encoding": "json", "data": {"a":  0.12345678901234567890123, "a": 1e400},' in first
    assert [(one["data_encoding"], one["data"]) for one in map(json.loads, texts)] == [
        ("text", "no json"),
        ("text", "NaN"),
        ("text", "[" * 5000),
        ("json", "\ud800"),
    ]
    document = json.loads(last)
    assert (document["type"], document["data_encoding"], b64decode(document["data"])) == ("flights", "base64", b"\x00\xff")
    assert b'"headers": {"tries": 12345678901234567890.5}' in last
    known = document["relaybox"]
    assert (known["store"], known["stream"], known["stream_position"], known["sender"]) == (STORE, "flights", 6, "UA")
    assert (known["key"], known["epoch"], known["attempt"], known["replayed"]) == ("k", 0, 1, False)
    assert datetime.fromisoformat(document["timestamp"]) == world.value("airline", "select max(sent_at) from relaybox.outbox")


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_messages_are_sent_as_cloudevents(world: World, here: Endpoint, mode: str) -> None:
    """Read with the package of CloudEvents; the body is signed in both modes. What was put as an event keeps its attributes."""
    event = {"specversion": "1.0", "id": "7", "source": "/gate", "type": "boarded", "subject": "UA 231 ü", "data": {"seats": 3}}
    with world.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", **event_fields({**event, "gate": "a\nb"}))
        put(cursor, "flights", "UA", b"\x00\xff", headers={"ce_id": "no event", "content-length": "1", "x\ny": "z"})
        connection.commit()
    world.transfer()
    deliver_waiting(webhook(world, here.url, cloudevents=mode))
    first, second = here.requests
    for request in (first, second):
        verify(request.body, request.headers)
    read, other = (from_http_event(HTTPMessage(dict(request.headers), request.body)) for request in (first, second))
    found = [read.get_attributes()[name] for name in ("id", "source", "type", "subject", "gate")]
    assert found == ["7", "/gate", "boarded", "UA 231 ü", "a\nb"]
    assert (read.get_data(), read.get_extension("relayboxsender"), read.get_extension("relayboxposition")) == (
        {"seats": 3},
        "UA",
        "1",
    )
    assert (other.get_id(), other.get_source(), other.get_type()) == (here.ids[1], "/relaybox/flights/UA", "flights")
    assert (other.get_data(), other.get_datacontenttype()) == (b"\x00\xff", "application/octet-stream")


def verify(body: bytes, headers: Mapping[str, str]) -> None:
    """That the signature is of this body, as the specification says; the receivers' library reads JSON alone."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = b64decode(SECRET.removeprefix("whsec_"))
    assert headers["webhook-signature"] == f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def test_a_message_that_is_replayed_has_the_id_of_before(world: World, here: Endpoint) -> None:
    deliver(world, 2)
    sink = webhook(world, here.url)
    deliver_waiting(sink)
    world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', 'earliest', 'again')")
    deliver_waiting(sink)
    assert here.ids[:2] == here.ids[2:]
    assert [body["relaybox"]["replayed"] for body in bodies(here)] == [False, False, True, True]  # type: ignore[index]


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_a_message_that_the_endpoint_refuses_becomes_a_dead_letter(world: World, here: Endpoint, status: int) -> None:
    """After nack_limit refusals, with the answer; the others go on, in their order."""
    deliver(world, 3)
    here.answers.extend([answer(204), answer(status, b"no such\nflight"), answer(status, b"no such\nflight")])
    run = deliver_waiting(webhook(world, here.url))
    assert positions(here) == [1, 2, 2, 3]
    assert dead_letters(world) == [(2, "refused", f"HTTP {status}: no such flight")]
    assert (run.delivered_count, run.refused_count, run.dead_letter_count) == (2, 2, 1)
    assert failing(world) == []


def test_a_dead_letter_is_redriven_with_its_id(world: World, here: Endpoint) -> None:
    deliver(world, 1)
    here.answers.extend([answer(422), answer(422)])
    sink = webhook(world, here.url)
    deliver_waiting(sink)
    world.query(STORE, f"select relaybox.redrive('{SUBSCRIPTION}', 'repaired')")
    assert deliver_waiting(sink).delivered_count == 1
    assert len(set(here.ids)) == 1


def test_later_messages_of_a_sender_wait_behind_its_dead_letter(world: World, here: Endpoint) -> None:
    """With hold_sender; other senders go on."""
    deliver(world, 6, senders=3)
    here.answers.extend([answer(400), answer(400)])
    deliver_waiting(webhook(world, here.url, hold_sender=True))
    assert positions(here) == [1, 1, 2, 3, 5, 6]
    assert [(position, reason) for position, reason, _ in dead_letters(world)] == [(1, "refused"), (4, "waits_behind")]


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (answer(500, b"oops"), "HTTP 500: oops"),
        (answer(503), "HTTP 503"),
        (answer(401), "HTTP 401"),
        (answer(429), "HTTP 429"),
        (answer(302, location="http://127.0.0.1:1/elsewhere"), "HTTP 302, a redirect to http://127.0.0.1:1/elsewhere"),
        (hang, "ReadTimeout"),
        (reset, "ReadError"),
        (garbage, "RemoteProtocolError"),
        (drip, "no answer within total_seconds, which is 2"),
        (endless(500), "HTTP 500: xxx"),
    ],
    ids=["500", "503", "401", "429", "redirect", "hang", "reset", "garbage", "drip", "endless 500"],
)
def test_a_failure_of_the_endpoint_counts_against_no_message(world: World, here: Endpoint, trouble, reason: str) -> None:
    """The message is sent again, with its id, until the endpoint takes it; then nothing is left of the failure."""
    deliver(world, 2)
    here.answers.append(trouble)
    sink = webhook(world, here.url)
    assert deliver_waiting(sink).delivered_count == 2
    assert positions(here) == [1, 1, 2]
    assert here.ids[0] == here.ids[1]
    assert (attempts(world), dead_letters(world), failing(world)) == (0, [], [])
    here.always = trouble
    deliver(world, 1)
    with pytest.raises(errors.EndpointUnavailable, match=re.escape(reason)):
        deliver_waiting(sink)
    (found,) = failing(world)
    assert found[0] == here.url
    assert found[1] >= 2
    assert reason in found[2]
    assert (attempts(world), dead_letters(world), done(world)) == (0, [], 2)
    assert world.value(STORE, f"select count(worker) from relaybox.lag('{SUBSCRIPTION}')") == 0, "the lane was given back"


def test_an_endpoint_that_is_not_there_fails(world: World, here: Endpoint) -> None:
    deliver(world, 1)
    with pytest.raises(errors.EndpointUnavailable, match="ConnectError"):
        deliver_waiting(webhook(world, "http://127.0.0.1:1/nothing"))
    assert attempts(world) == 0


def test_a_message_survives_more_failures_than_any_limit(world: World, here: Endpoint) -> None:
    """Far beyond nack_limit and crash_limit, run after run: fetches that were given back are not counted."""
    deliver(world, 1)
    sink = webhook(world, here.url, nack_limit=1)
    here.answers.extend([answer(500)] * 20)
    for _ in range(30):
        with suppress(errors.EndpointUnavailable):
            deliver_waiting(sink)
        world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
        if done(world) == 1:
            break
    assert positions(here) == [1] * 21
    assert dead_letters(world) == []
    assert bodies(here)[-1]["relaybox"]["attempt"] == 1, "no attempt was counted"  # type: ignore[index]


def test_an_answer_is_read_no_further_than_its_limit(world: World, here: Endpoint) -> None:
    """A body without an end is no failure: the status has said that the message arrived."""
    deliver(world, 2)
    here.answers.append(endless(200))
    sink = webhook(world, here.url, answer_bytes=1000, read_seconds=5, total_seconds=5)
    assert deliver_waiting(sink).delivered_count == 2
    assert positions(here) == [1, 2]
    assert here.endless_bytes < 50_000_000, "what buffers on the way take, and no more"


def test_the_log_counts_failed_attempts_as_the_list_does(world: World, here: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    """Also those of lanes that fail together, which are one failure for the circuit breaker."""
    deliver(world, 60, senders=10)
    sink = webhook(world, here.url, lanes=4, read_seconds=60, total_seconds=60)
    together = threading.Barrier(2, timeout=patience(5))

    def fail_together(handler) -> None:
        with suppress(threading.BrokenBarrierError):
            together.wait()
        answer(503)(handler)

    here.answers.extend([fail_together] * 2)
    here.always = answer(503)
    with pytest.raises(errors.EndpointUnavailable):
        deliver_waiting(sink)
    logged = [int(count) for count in re.findall(r"endpoint_fails .*failed_attempts=(\d+)", caplog.text)]
    ((_, listed, _),) = failing(world)
    assert sorted(logged) == list(range(1, listed + 1))
    assert listed == len(here.requests)


def test_retry_after_is_waited_for(world: World, here: Endpoint) -> None:
    """The next attempt is due when the endpoint says, also for the next process."""
    deliver(world, 1)
    here.answers.append(answer(429, retry_after="3000"))
    sink = webhook(world, here.url, open_after_failures=1)
    with pytest.raises(errors.EndpointUnavailable):
        deliver_waiting(sink)
    rest = world.value(STORE, f"select rest_seconds from relaybox.endpoint_failure('{SUBSCRIPTION}')")
    assert 2900 < rest <= 3000
    with pytest.raises(errors.EndpointUnavailable, match="HTTP 429"):
        deliver_waiting(sink)
    assert len(here.requests) == 1, "nothing is sent before its time"
    assert cli.invoke("--config", str(world.path), "webhook", "retry", "billing").exit_code == 0
    assert deliver_waiting(sink).delivered_count == 1


def test_a_run_that_waits_goes_on_when_a_person_says_so(world: World, here: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """`relaybox webhook retry` ends the pause of a process that runs."""
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.05)
    deliver(world, 1)
    here.answers.append(answer(503, retry_after="3000"))
    with Running(webhook(world, here.url)):
        wait_until(lambda: len(failing(world)) == 1, "the failure is recorded")
        world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
        wait_until(lambda: len(here.requests) == 2, "the next attempt is made")


class Running:
    """A run that waits for messages, in a thread."""

    def __init__(self, sink: Webhook) -> None:
        self.runner = SinkRunner(sink, find_in_environment, until_empty=False)
        self.thread = threading.Thread(target=self.runner.run)

    def __enter__(self) -> SinkRunner:
        self.thread.start()
        return self.runner

    def __exit__(self, *_: object) -> None:
        self.runner.stop()
        self.thread.join(patience(30))
        assert not self.thread.is_alive()


def test_while_the_endpoint_fails_one_lane_tries_one_message(world: World, here: Endpoint) -> None:
    """The others wait, also with many lanes: an endpoint that comes up is not flooded. Then each message is delivered."""
    deliver(world, 40, senders=8)
    sink = webhook(world, here.url, lanes=4, open_after_failures=100, read_seconds=60, total_seconds=60)
    lanes = "select count(distinct relaybox_internal.lane_of('sender', 4, 's' || n, null)) from generate_series(1, 8) n"
    all_lanes = threading.Barrier(world.value(STORE, lanes), timeout=patience(30))

    def fail_together(handler) -> None:
        all_lanes.wait()
        answer(500)(handler)

    here.answers.extend([fail_together] * all_lanes.parties)  # one for each lane that is under way at first
    here.always = answer(500)
    with Running(sink):
        wait_until(lambda: failing(world) != [] and len(here.requests) > 5, "the endpoint fails")
        here.most_under_way = 0
        before = len(here.requests)
        wait_until(lambda: len(here.requests) > before + 2, "more attempts")
        assert here.most_under_way == 1
        here.always = answer(204)
        wait_until(lambda: done(world) == 40, "all are delivered")
    assert sorted(set(positions(here))) == list(range(1, 41))


def test_lanes_keep_the_order_of_each_sender(world: World, here: Endpoint) -> None:
    """And send at once: two are under way together."""
    deliver(world, 60, senders=10)
    both = threading.Barrier(2, timeout=patience(5))

    def together(handler) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait()
        answer(204)(handler)

    here.answers.extend([together] * 2)
    sink = webhook(world, here.url, lanes=4, read_seconds=60, total_seconds=60)
    assert deliver_waiting(sink).delivered_count == 60
    assert here.most_under_way >= 2
    senders: dict[str, list[int]] = {}
    for body in bodies(here):
        known = body["relaybox"]
        senders.setdefault(known["sender"], []).append(known["stream_position"])  # type: ignore[index]
    assert len(senders) == 10
    assert all(found == sorted(found) for found in senders.values())


def test_a_run_tells_what_waits_when_all_its_workers_have_ended(world: World, here: Endpoint) -> None:
    """One sender has one lane: three of four workers end while it is read. It is empty in the end, and nothing waits."""
    deliver(world, 20)
    webhook(world, here.url, lanes=4)
    config = ("--config", str(world.path))
    ended = cli.invoke(*config, "webhook", "run", "billing", "--until-empty", "--json")
    assert (ended.exit_code, ended.document["delivered_count"], ended.document["unread"]) == (0, 20, [])
    (listed,) = cli.invoke(*config, "webhook", "list", "--json").document["sinks"]
    assert listed["waiting_count"] == 0


def test_a_run_tells_which_lane_has_more(world: World, here: Endpoint) -> None:
    """A message that was refused is due later: its lane has more, whichever worker ended last."""
    deliver(world, 3)
    webhook(world, here.url, lanes=4, retry_seconds=3600)
    here.answers.append(answer(422))
    ended = cli.invoke("--config", str(world.path), "webhook", "run", "billing", "--until-empty")
    assert ended.exit_code == 3
    assert "has more (stream positions behind: 3): not due yet" in ended.stderr


def test_messages_come_no_faster_than_the_rate(world: World, here: Endpoint) -> None:
    """Of all lanes of a process together."""
    deliver(world, 8, senders=8)
    began = datetime.now(UTC)
    deliver_waiting(webhook(world, here.url, lanes=2, messages_per_second=10))
    assert datetime.now(UTC) - began >= timedelta(seconds=0.7)


@pytest.mark.parametrize("step", SINK_FAILPOINTS)
def test_a_worker_that_is_killed_at_any_step_loses_nothing(world: World, here: Endpoint, tmp_path: Path, step: str) -> None:
    """Each message arrives; one that arrives twice has the same id. Nothing is counted as a refusal."""
    sink = webhook(world, here.url, open_after_failures=1)
    deliver_waiting(sink)
    deliver(world, 3)
    if step in ("sink.failed", "sink.recorded"):
        here.answers.append(answer(500))
    kill_at(step, tmp_path, lambda: SinkRunner(sink, find_in_environment, until_empty=True).run())
    world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
    world.query(STORE, "update relaybox_internal.cursor set leased_until = now() where worker is not null")
    deliver_waiting(sink)
    assert done(world) == 3
    found = positions(here)
    assert sorted(set(found)) == [1, 2, 3]
    assert len(found) - len(set(found)) == (
        1 if step in ("sink.delivered", "sink.acknowledged", "sink.failed", "sink.recorded") else 0
    )
    assert len(set(here.ids)) == 3
    assert dead_letters(world) == []


def finished(world: World, sink: Webhook, count: int) -> bool:
    deliver_waiting(sink)
    return done(world) == count


def test_sigterm_ends_a_run_after_what_is_under_way(world: World, here: Endpoint) -> None:
    """What was sent is acknowledged, the lane is given back, and the next run goes on at once."""
    deliver(world, 5)
    release = threading.Event()

    def slow(handler) -> None:
        release.wait(patience(30))
        answer(204)(handler)

    here.answers.append(slow)
    sink = webhook(world, here.url, read_seconds=60, total_seconds=60)
    process = cli.start("--config", str(world.path), "webhook", "run", "billing", "--json")
    wait_until(lambda: len(here.requests) == 1, "the first message is under way")
    process.send_signal(signal.SIGTERM)
    release.set()
    stdout, stderr = process.communicate(timeout=patience(60))
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["delivered_count"] == 1
    assert done(world) == 1
    assert deliver_waiting(sink).delivered_count == 4
    assert positions(here) == [1, 2, 3, 4, 5]


def test_a_lane_that_is_lost_is_fetched_again(world: World, here: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session breaks when the endpoint has confirmed: the message comes twice, with one id, and the others once."""
    deliver(world, 3)
    ack = ConsumerSession.ack
    broken = []

    def breaking(session: ConsumerSession, message: object) -> object:
        if not broken:
            broken.append(session.connection.exec_driver_sql("select pg_backend_pid()").scalar())
            world.query(STORE, "select pg_terminate_backend(%s)", broken[0])
        return ack(session, message)  # type: ignore[arg-type]

    monkeypatch.setattr(ConsumerSession, "ack", breaking)
    assert deliver_waiting(webhook(world, here.url)).delivered_count == 3
    assert positions(here) == [1, 1, 2, 3]
    assert here.ids[0] == here.ids[1]


def test_two_runs_at_once_share_the_lanes(world: World, here: Endpoint) -> None:
    """Two processes of one webhook do no message twice."""
    deliver(world, 40, senders=10)
    sink = webhook(world, here.url, lanes=4)
    runs = [threading.Thread(target=partial(deliver_waiting, sink)) for _ in range(2)]
    for one in runs:
        one.start()
    for one in runs:
        one.join(patience(60))
    wait_until(lambda: finished(world, sink, 40), "all are delivered")
    assert sorted(positions(here)) == list(range(1, 41))


def test_a_certificate_is_verified(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody trusts is a failure of the endpoint; with its authority in SSL_CERT_FILE it is accepted."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("server", hosts=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    deliver(world, 1)
    with endpoint(wrap=partial(context.wrap_socket, server_side=True)) as secure:
        sink = webhook(world, secure.url, plain_http=False)
        with pytest.raises(errors.EndpointUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            deliver_waiting(sink)
        assert secure.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.root))
        world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
        assert deliver_waiting(sink).delivered_count == 1


def test_no_secret_and_no_query_is_logged_or_shown(world: World, here: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    """The query of a URL may have a token."""
    caplog.set_level(logging.INFO)
    deliver(world, 1)
    here.answers.extend([answer(500)] * 5)
    with pytest.raises(errors.EndpointUnavailable) as failed:
        deliver_waiting(webhook(world, f"{here.url}?token=topsecret"))
    assert here.requests[0].path.endswith("?token=topsecret")
    shown = caplog.text + str(failed.value) + str(failing(world)) + cli.invoke("--config", str(world.path), "webhook").stdout
    assert "endpoint_fails" in shown
    assert "topsecret" not in shown
    assert SECRET not in shown


def test_a_wrong_secret_is_told_without_it(world: World, here: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = webhook(world, here.url)
    for value, told in (("whsec_tooshort1", "it is no base64"), ("c2hvcnQ=", "it is 5 bytes"), ("", f"{WHERE} is empty")):
        monkeypatch.setenv(WHERE, value)
        with pytest.raises(errors.ConfigurationError, match=told) as refused:
            deliver_waiting(sink)
        assert not value or value not in str(refused.value)
    monkeypatch.delenv(WHERE)
    with pytest.raises(errors.ConfigurationError, match=f"{WHERE} is not set"):
        deliver_waiting(sink)
    assert world.query(STORE, "select 1 from relaybox.subscriptions") == []


def test_a_login_of_a_consumer_is_enough(world: World, here: Endpoint) -> None:
    """To subscribe, deliver, record a failure and go on after it."""
    deliver(world, 2)
    sink = webhook(world, here.url)
    here.answers.extend([answer(503)] * 2)
    with logged_in_as(world, "relaybox_consumer"):
        with pytest.raises(errors.EndpointUnavailable):
            deliver_waiting(sink)
        world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
        assert deliver_waiting(sink).delivered_count == 2
    with logged_in_as(world, "relaybox_driver"), pytest.raises(errors.StoreUnusable, match="permission denied"):
        deliver_waiting(sink)


def test_a_subscription_that_was_ended_is_not_made_again_by_itself(world: World, here: Endpoint) -> None:
    """The endpoint would get the whole stream once more."""
    deliver(world, 2)
    sink = webhook(world, here.url)
    deliver_waiting(sink)
    world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'wrong endpoint')")
    with pytest.raises(
        errors.NotSubscribed, match=r"was ended by .* \(wrong endpoint\).*relaybox webhook run billing --begin-anew"
    ):
        deliver_waiting(sink)
    assert len(here.requests) == 2
    assert deliver_waiting(sink, begin_anew=True).delivered_count == 2


def test_a_file_that_differs_from_the_subscription_is_refused(world: World, here: Endpoint) -> None:
    """A subscription keeps what it was made with: a change in the file alone would have no effect."""
    deliver_waiting(webhook(world, here.url))
    with pytest.raises(errors.ConfigurationError, match=r"relaybox.yaml has lanes 3, the store 1; nack_limit 7, the store 2\."):
        deliver_waiting(webhook(world, here.url, lanes=3, nack_limit=7))
    with pytest.raises(errors.ConfigurationError, match="need a lease of 241 s, the store lease_seconds 60"):
        deliver_waiting(webhook(world, here.url, total_seconds=120))


def test_the_commands_tell_how_an_endpoint_is(world: World, here: Endpoint) -> None:
    """`list` before the first run, while the endpoint fails and after; `status` warns, and names the command."""
    config = ("--config", str(world.path))
    deliver(world, 3)
    sink = webhook(world, here.url)
    (listed,) = cli.invoke(*config, "webhook", "list", "--json").document["sinks"]
    assert (listed["name"], listed["waiting_count"], listed["failing_since"]) == ("billing", None, None)
    assert "not subscribed yet" in cli.invoke(*config, "webhook").stdout
    here.always = answer(503, b"maintenance")
    failed = cli.invoke(*config, "webhook", "run", "billing", "--until-empty", "--json")
    assert failed.exit_code == 4
    assert failed.document["error"]["kind"] == "EndpointUnavailable"
    (listed,) = cli.invoke(*config, "webhook", "list", "--json").document["sinks"]
    shown = " ".join(cli.invoke(*config, "webhook").stdout.split())
    assert f"billing: {listed['failure_count']} failed attempts, the newest: HTTP 503: maintenance." in shown
    assert (listed["waiting_count"], listed["reason"]) == (3, "HTTP 503: maintenance")
    status = cli.invoke(*config, "status")
    told = f"warning: store {STORE}: endpoint {here.url} of subscription {SUBSCRIPTION} has taken no message since "
    assert told in status.stderr
    assert "3 messages wait" in status.stderr
    assert "relaybox webhook retry billing" in status.stderr
    (shown,) = cli.invoke(*config, "status", "--json").document["failing_endpoints"]
    assert (shown["subscription"], shown["reason"], shown["waiting_count"]) == (SUBSCRIPTION, "HTTP 503: maintenance", 3)
    doctor = cli.invoke(*config, "doctor", STORE)
    assert f"The endpoint of subscription {SUBSCRIPTION} has taken no message for " in " ".join(doctor.stdout.split())
    (finding,) = [one for one in read_overview(world.routes).findings if one.kind == "endpoint_fails"]
    assert (finding.message_count, finding.severity, finding.runbook) == (3, Severity.STUCK, "failing-endpoint")
    assert "127.0.0.1" not in f"{finding.what} {finding.next_step}", "who sees the page may not know the servers"
    here.always = answer(204)
    assert (
        "the pause is over. A run that waits tries within 5 s, the next run tries at once"
        in cli.invoke(*config, "webhook", "retry", "billing").stdout
    )
    ended = cli.invoke(*config, "webhook", "run", "billing", "--until-empty")
    assert "billing: 3 messages were delivered" in ended.stdout
    assert cli.invoke(*config, "status", "--json").document["failing_endpoints"] == []
    assert "was not failing" in cli.invoke(*config, "webhook", "retry", "billing").stdout
    assert sink.endpoint == here.url


def test_whose_fault_an_answer_is() -> None:
    """Each status: 2xx is delivered; 4xx but eight are the message's; all else is the endpoint's."""
    now = datetime(2026, 7, 1, 12, tzinfo=UTC)
    of_the_endpoint = {401, 403, 407, 408, 421, 423, 425, 429}
    for status in range(200, 600):
        outcome = classify_answer(status, {}, b"", now)
        assert outcome.delivered_count == (status < 300)
        assert (outcome.refused is not None) == (400 <= status < 500 and status not in of_the_endpoint), status
        assert (outcome.failure is not None) == (status >= 500 or 300 <= status < 400 or status in of_the_endpoint), status


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        (format_datetime(datetime(2026, 7, 1, 12, 1, tzinfo=UTC), usegmt=True), 60.0),
        (format_datetime(datetime(2026, 7, 1, 11, tzinfo=UTC), usegmt=True), 0.0),
        ("99999999999999999999", 86400.0),
        ("soon", None),
        ("-5", None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
        ("١٢", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert read_retry_after(value, datetime(2026, 7, 1, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Wed, 01 Jul 2026 09:59:00 GMT", 120.0),
        ("Wed, 01 Jul 2026 09:59:00", 120.0),
        ("soon", 60.0),
        ("", 60.0),
        ("Wed, 01 Jul 99999999999999999999 09:59:00 GMT", 60.0),
        (None, 60.0),
    ],
)
def test_a_date_to_wait_for_is_read_by_the_clock_of_the_endpoint(date: str | None, seconds: float) -> None:
    """Its header Date says what that clock says. Without one that can be read, our clock counts."""
    headers = {"retry-after": "Wed, 01 Jul 2026 10:01:00 GMT"} | ({} if date is None else {"date": date})
    outcome = classify_answer(503, headers, b"", datetime(2026, 7, 1, 10, tzinfo=UTC))
    assert outcome.failure is not None
    assert outcome.failure.retry_after_seconds == seconds


def test_the_library_follows_no_redirect_unless_told() -> None:
    """That what the sender relies on is still so."""
    assert httpx.AsyncClient().follow_redirects is False


def test_an_answer_too_many_counts_for_no_other_message(world: World, here: Endpoint) -> None:
    """An endpoint, or a proxy, sends one 200 too many on a connection that is kept."""
    deliver(world, 3)
    here.answers.append(twice(answer(200)))
    here.always = answer(500)
    with suppress(errors.EndpointUnavailable):
        deliver_waiting(webhook(world, here.url))
    assert done(world) == 1
