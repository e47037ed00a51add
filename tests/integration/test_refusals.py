"""Why a server refused a connection: its SQLSTATE decides, whatever language it speaks; without one, the status of libpq."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import write_service_file
from relaybox.stores.sessions.certificates import CertificateCheck
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.refusals import Refusal, ask_again
from tests.support.patience import patience

pytestmark = pytest.mark.thorough

FINAL = ("28000", "28P01", "3D000", "42501", "42704", "22023", "0A000")
PASSING = ("53300", "57P03", "57P01", "53200", "58000", "08P01", "XX000")


def error_response(code: str, words: str) -> bytes:
    """FATAL as a server writes it to a client that is not logged in yet."""
    fields = b"".join(
        kind + value.encode() + b"\0" for kind, value in ((b"S", "SCHWERWIEGEND"), (b"V", "FATAL"), (b"C", code), (b"M", words))
    )
    return b"E" + struct.pack("!i", len(fields) + 5) + fields + b"\0"


@contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answers each connection to a port with what `answer` sends, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            with suppress(OSError):  # the block has ended
                while True:
                    client, _ = server.accept()
                    with client:
                        answer(client)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def refusing(code: str, words: str) -> Callable[[socket.socket], None]:
    def answer(client: socket.socket) -> None:
        client.recv(10_000)
        client.sendall(error_response(code, words))

    return answer


def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int | str, **more: str) -> None:
    parameters = {"host": "127.0.0.1", "port": str(port), "dbname": "x", "user": "x", "sslmode": "disable", **more}
    write_service_file(tmp_path / "services.conf", {"store": {**parameters, "gssencmode": "disable"}})
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))


@pytest.mark.parametrize("code", FINAL)
def test_a_final_sqlstate_is_no_retry_in_any_language(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(refusing(code, "geht leider nicht")) as port:
        serve(tmp_path, monkeypatch, port)
        with pytest.raises(errors.StoreUnusable, match=r"store store: the server refused the connection: .*geht leider nicht"):
            connect("store", application_name="test")


def test_a_login_without_connect_is_told_what_to_grant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the SQLSTATE: user, password and dbname are right."""
    with listener(refusing("42501", "geht leider nicht")) as port:
        serve(tmp_path, monkeypatch, port, dbname="hub", user="Ada")
        with pytest.raises(errors.StoreUnusable) as raised:
            connect("store", application_name="test")
    assert raised.value.next_step.startswith('As the owner of the database: grant connect on database hub to "Ada";')
    assert "password" not in raised.value.next_step


@pytest.mark.parametrize("code", PASSING)
def test_any_other_sqlstate_is_worth_a_retry_whatever_its_words_say(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(refusing(code, 'password authentication failed: role "x" does not exist')) as port:
        serve(tmp_path, monkeypatch, port)
        with pytest.raises(errors.StoreUnreachable, match="no connection"):
            connect("store", application_name="test")


def test_a_server_without_a_connection_left_says_who_can_end_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Host and port are right: nobody should look for the cause there."""
    with listener(refusing("53300", "zu viele Verbindungen")) as port:
        serve(tmp_path, monkeypatch, port)
        with pytest.raises(errors.StoreUnreachable, match="no connection is left") as raised:
            connect("store", application_name="test")
    assert "pg_stat_activity" in raised.value.next_step
    assert "service file" not in raised.value.next_step


def test_several_addresses_are_final_only_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server of a pair starts up, the other one refuses the password."""
    with listener(refusing("57P03", "starting")) as first, listener(refusing("28P01", "no")) as second:
        serve(tmp_path, monkeypatch, f"{first},{second}", host="127.0.0.1,127.0.0.1")
        assert ask_again({"service": "store"}).sqlstates == ("57P03", "28P01")
        with pytest.raises(errors.StoreUnreachable):
            connect("store", application_name="test")


def test_a_password_that_is_missing_is_no_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server asks for one, and libpq ends the attempt without an SQLSTATE."""

    def ask_for_password(client: socket.socket) -> None:
        client.recv(10_000)
        client.sendall(b"R" + struct.pack("!ii", 8, 3))

    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    with listener(ask_for_password) as port:
        serve(tmp_path, monkeypatch, port)
        assert ask_again({"service": "store"}) == Refusal(needs_password=True)
        with pytest.raises(errors.StoreUnusable):
            connect("store", application_name="test")


def test_a_server_without_tls_is_no_retry_where_tls_is_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def decline(client: socket.socket) -> None:
        client.recv(8)
        client.sendall(b"N")

    with listener(decline) as port:
        serve(tmp_path, monkeypatch, port, sslmode="require")
        assert ask_again({"service": "store"}) == Refusal(failed_in_tls=True, certificates=CertificateCheck(was_answered=True))
        with pytest.raises(errors.StoreUnusable, match="TLS"):
            connect("store", application_name="test")


@pytest.mark.parametrize("sslmode", ["prefer", "require", "verify-full"])
def test_a_server_that_ends_connections_in_the_middle_of_tls_is_worth_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sslmode: str
) -> None:
    """It starts or stops, or a proxy before it has lost it."""
    with listener(lambda _: None) as port:
        serve(tmp_path, monkeypatch, port, sslmode=sslmode, sslrootcert="system")
        assert ask_again({"service": "store"}) == Refusal()
        with pytest.raises(errors.StoreUnreachable):
            connect("store", application_name="test")


def test_a_cause_that_has_passed_is_worth_a_retry(world_service: str) -> None:
    """The second attempt gets in: it leaves no session behind, and knows nothing."""
    assert ask_again({"service": world_service}) == Refusal()


@pytest.fixture
def world_service(databases: object) -> str:
    return "airline"


def test_a_second_attempt_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and says nothing."""
    ended = threading.Event()

    def say_nothing(client: socket.socket) -> None:
        client.recv(10_000)
        ended.wait(patience(30))

    with listener(say_nothing) as port:
        serve(tmp_path, monkeypatch, port)
        assert ask_again({"service": "store"}, seconds=0.2) == Refusal()
        ended.set()


@pytest.mark.parametrize(
    ("text", "next_step"),
    [
        (None, "Set PGSERVICEFILE to the path of the service file"),
        ("[hub]\nhost=x\n", r"Add a section \[airline\]"),
        ("[airline]\nno such line\n", r"Correct section \[airline\] of the service file"),
        ("[airline]\nhotst=x\n", r"Correct section \[airline\] of the service file"),
    ],
)
def test_a_wrong_service_file_is_told_by_what_is_in_it(
    text: str | None, next_step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "services.conf"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    with pytest.raises(errors.ConfigurationError, match=r"^store airline: ") as refused:
        connect("airline", application_name="test")
    assert next_step.replace("\\", "") in refused.value.next_step
