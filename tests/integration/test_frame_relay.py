"""The relay of frames: what passes libpq by, in pieces of any size, and each way in which the wire can lie or break."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import psycopg2
import pytest

from relaybox import errors
from relaybox.stores.binary_copy.frame_relay import DestinationFrozen, FrameRelay, SourceFailed, is_plain
from relaybox.stores.binary_copy.pipe import pipe_copy
from relaybox.stores.sessions.connections import connect, translate
from tests.support.patience import patience
from tests.support.world import World


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">I", 4 + len(body)) + body


BEGINS, ALL_ROWS, COMPLETE, READY = message(b"H", b"\0\0\0"), message(b"c"), message(b"C", b"COPY 3\0"), message(b"Z", b"I")
ROWS = message(b"d", b"1\n") + message(b"d", b"22\n") + message(b"d", b"333\n")
NOTICE, SETTING = message(b"N", b"SWARNING\0Mhm\0\0"), message(b"S", b"TimeZone\0UTC\0")
WHOLE = BEGINS + ROWS + ALL_ROWS + COMPLETE + READY
ERROR = message(b"E", b"SERROR\0C22012\0Mdivision by zero\0Hdo not\0\0")


class Wire:
    """Both ends of the sockets of two sessions: what the servers say is what a test writes."""

    def __init__(self, *, timeout_seconds: float) -> None:
        self.source, self.source_server = socket.socketpair()
        self.destination, self.destination_server = socket.socketpair()
        for session in (self.source, self.destination):
            session.setblocking(False)  # as libpq has them
        self.relay = FrameRelay(self.source, "copy t to stdout", self.destination, timeout_seconds=timeout_seconds)  # type: ignore[arg-type]
        self.taken = bytearray()
        self._taker = threading.Thread(target=self._take, daemon=True)

    def run(self) -> bytes:
        self._taker.start()
        return self.relay.read()

    def _take(self) -> None:
        with suppress(OSError):
            while data := self.destination_server.recv(1 << 16):
                self.taken += data

    def close(self) -> None:
        self.relay.close()
        for link in (self.source, self.source_server, self.destination):
            link.close()
        if self._taker.ident is not None:
            self._taker.join(patience(10))
        self.destination_server.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(timeout_seconds=patience(10))
    yield wire
    wire.close()


def test_the_question_is_a_query_and_the_answer_is_handed_on_as_it_came(wire: Wire) -> None:
    """The destination gets the frames of the rows, and nothing else of what the source says. The file itself is empty."""
    wire.source_server.sendall(WHOLE)
    assert wire.run() == b""
    assert wire.relay.has_sent_all
    assert wire.relay.byte_count == len(b"1\n22\n333\n")
    assert wire.source_server.recv(100) == message(b"Q", b"copy t to stdout\0")
    wire.close()
    assert wire.taken == ROWS


def test_messages_may_come_byte_by_byte_and_with_others_between(wire: Wire) -> None:
    """A network cuts where it likes; a notice and a setting that changed may stand between any two messages."""
    told = NOTICE + BEGINS + SETTING + ROWS + NOTICE + ALL_ROWS + SETTING + COMPLETE + NOTICE + READY

    def tell() -> None:
        for byte in told:
            wire.source_server.sendall(bytes([byte]))

    teller = threading.Thread(target=tell)
    teller.start()
    assert wire.run() == b""
    teller.join()
    wire.close()
    assert wire.taken == ROWS


def test_a_row_that_is_longer_than_the_buffer_is_one_frame(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 MiB and more, with short ones before and after it."""
    long = message(b"d", b"x" * (17 << 20))
    threading.Thread(target=wire.source_server.sendall, args=(BEGINS + ROWS + long + ROWS + ALL_ROWS + COMPLETE + READY,)).start()
    wire.run()
    wire.close()
    assert wire.taken == ROWS + long + ROWS
    assert len(wire.relay._buffer) < 18 << 20  # noqa: SLF001  one frame of it, not two


@pytest.mark.parametrize(
    "told",
    [
        ROWS,
        BEGINS + BEGINS,
        BEGINS + ALL_ROWS + ROWS,
        BEGINS + ROWS + COMPLETE,
        BEGINS + ROWS + ALL_ROWS + READY,
        BEGINS + ROWS + ALL_ROWS + ALL_ROWS,
        message(b"G", b"\0\0\0"),
        COMPLETE,
        READY,
        b"TimeZone\0UTC\0" + WHOLE,
        b"\0\0" + WHOLE,
        BEGINS + b"d\0\0\0\3",
        BEGINS + b"d\x7f\xff\xff\xff",
        WHOLE + READY,
        WHOLE + b"Z",
    ],
)
def test_what_is_out_of_turn_is_the_sources_failure(wire: Wire, told: bytes) -> None:
    """Rows before the beginning or after the end, an end that is none, the tail of another message, lengths that can't be."""
    wire.source_server.sendall(told)
    with pytest.raises(SourceFailed, match="the server sent a message of the kind"):
        wire.run()
    assert wire.relay.failure is not None


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_stream_that_is_cut_never_looks_whole(wire: Wire, length: int) -> None:
    """After any byte: an end of file is no end of the COPY, and the destination has whole frames only."""
    wire.source_server.sendall(WHOLE[:length])
    wire.source_server.shutdown(socket.SHUT_WR)
    with pytest.raises(SourceFailed, match="server closed the connection unexpectedly"):
        wire.run()
    assert not wire.relay.has_sent_all
    wire.close()
    assert wire.taken in (b"", ROWS[:7], ROWS[:15], ROWS)


@pytest.mark.parametrize("before", [b"", BEGINS, BEGINS + ROWS, BEGINS + ROWS + ALL_ROWS])
def test_an_error_of_the_source_is_told_with_its_code_and_hint(wire: Wire, before: bytes) -> None:
    """Whenever it comes, also after the last row: the source was not done."""
    wire.source_server.sendall(before + ERROR + READY)
    with pytest.raises(SourceFailed) as failed:
        wire.run()
    error = translate(failed.value.error, store="airline", doing="sending")
    assert isinstance(error, errors.StoreFailed)
    assert str(error) == "store airline: while sending: division by zero (22012). do not"


def test_a_silent_source_is_given_up_at_the_limit() -> None:
    with closing(Wire(timeout_seconds=0.2)) as wire:
        wire.source_server.sendall(BEGINS + ROWS)
        with pytest.raises(SourceFailed, match=r"not everything was sent within 0\.2 s"):
            wire.run()


def test_a_destination_that_takes_nothing_is_given_up_at_the_limit() -> None:
    """Its session is cut: within a frame no end of the COPY would be understood."""
    with closing(Wire(timeout_seconds=0.5)) as wire:
        rows = message(b"d", b"x" * 1000) * 10_000
        threading.Thread(target=_send, args=(wire.source_server, BEGINS + rows)).start()
        with pytest.raises(DestinationFrozen, match=r"not everything was taken within 0\.5 s"):
            wire.relay.read()
        assert _rest(wire.destination_server).startswith(rows[:1005])


def _send(link: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        link.sendall(data)


def _rest(link: socket.socket) -> bytes:
    """All that comes until the other end was cut."""
    rest = b""
    while data := link.recv(1 << 20):
        rest += data
    return rest


@pytest.mark.parametrize("said", [b"E", b""], ids=["an error", "the end"])
def test_the_relay_ends_early_where_the_destination_has_failed(wire: Wire, said: bytes) -> None:
    """It raises nothing: libpq reads there what the server said. What it said is left for libpq."""
    if said:
        wire.destination_server.sendall(ERROR)
    else:
        wire.destination_server.shutdown(socket.SHUT_WR)
    wire.source_server.sendall(BEGINS + ROWS)
    assert wire.run() == b""
    assert not wire.relay.has_sent_all
    assert wire.destination.recv(1) == said


@pytest.mark.parametrize(("said", "left"), [(NOTICE + NOTICE, b""), (SETTING, b"S"), (NOTICE + SETTING + NOTICE, b"S")])
def test_a_notice_of_the_destination_is_no_failure(wire: Wire, said: bytes, left: bytes) -> None:
    """Notices are dropped; a setting that changed is libpq's to read, and what comes after it too."""
    wire.destination_server.sendall(said)
    wire.source_server.sendall(WHOLE)
    wire.run()
    assert wire.relay.has_sent_all
    with suppress(BlockingIOError):
        assert wire.destination.recv(1) == left


def test_a_destination_that_warns_at_each_row_gets_all_rows(world: World) -> None:
    """Its server sends more warnings than its socket holds, and takes no rows while they wait."""
    with (
        closing(connect("airline", application_name="quiet")) as source,
        closing(connect("hub", application_name="noisy")) as hub,
    ):
        with hub.cursor() as cursor:
            cursor.execute(
                "create function pg_temp.warn() returns trigger language plpgsql as "
                "$$ begin raise warning '%', repeat('row ', 200); return new; end $$;"
                "create temporary table numbers (n text);"
                "create trigger warns before insert on numbers for each row execute function pg_temp.warn()"
            )
        query = "copy (select repeat(n::text, 100) from generate_series(1, 30000) n) to stdout"
        copied = pipe_copy(source, query, hub, "copy numbers from stdin", timeout_seconds=patience(60))
        assert copied.row_count == 30000


def test_sessions_can_be_used_again_after_their_rows_were_relayed(world: World) -> None:
    """Both are in step with their servers: statements and another COPY follow, after a row that the destination refused too."""
    with (
        closing(connect("airline", application_name="again")) as source,
        closing(connect("hub", application_name="again")) as hub,
    ):
        with hub.cursor() as cursor:
            cursor.execute("create temporary table numbers (n bigint primary key)")
        hub.commit()

        def copy(first: int) -> int:
            query = f"copy (select generate_series({first}::bigint, {first + 99})) to stdout (format binary)"
            return pipe_copy(source, query, hub, "copy pg_temp.numbers from stdin (format binary)", timeout_seconds=30).row_count

        assert copy(1) == copy(101) == 100
        source.rollback()
        hub.commit()
        with source.cursor() as cursor:
            cursor.execute("select 1 / 1")
            assert cursor.fetchone() == (1,)
        assert copy(201) == 100
        with pytest.raises(psycopg2.errors.UniqueViolation):
            copy(201)
        hub.rollback()
        with hub.cursor() as cursor:
            cursor.execute("select count(*), max(n) from pg_temp.numbers")
            assert cursor.fetchone() == (200, 200)


def test_a_frozen_destination_of_real_rows_is_told_as_such(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that it waits for is its own matter; a socket that takes nothing until the limit is an unreachable store."""
    with (
        closing(connect("airline", application_name="quick")) as source,
        closing(connect("hub", application_name="stuck")) as hub,
    ):
        with hub.cursor() as cursor:
            cursor.execute(
                "create function pg_temp.wait() returns trigger language plpgsql as $$ begin perform pg_sleep(600); return new; end $$;"
                "create temporary table numbers (n bigint);"
                "create trigger waits before insert on numbers for each row execute function pg_temp.wait()"
            )
        with pytest.raises(psycopg2.OperationalError, match="not everything was taken within 2 s"):
            pipe_copy(
                source, "copy (select generate_series(1, 10000000)) to stdout", hub, "copy numbers from stdin", timeout_seconds=2
            )
        assert hub.closed
    world.query("hub", "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'stuck'")


class _Tls:
    """A session over TLS, as psycopg2 tells of it."""

    class info:  # noqa: N801  as psycopg2 calls it
        ssl_in_use = True


def test_an_encrypted_session_is_not_plain(world: World) -> None:
    """TLS is libpq's to know; a session of these clusters is plain."""
    assert not is_plain(_Tls())  # type: ignore[arg-type]
    with closing(connect("hub", application_name="plain")) as session:
        assert is_plain(session)
