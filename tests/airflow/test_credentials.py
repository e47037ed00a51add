"""Each session has fresh credentials: a password that changes while a task runs, also in mid-batch, costs a retry at most."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseHook

from relaybox import errors
from relaybox.airflow import credential_renewal
from relaybox.airflow.service_file import service_file
from relaybox.routes import Store
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.credentials import Renewal, note_admitted, renew_credentials
from tests.airflow.connections import change_connection
from tests.airflow.rotating_logins import RotatingLogin, rotating_login
from tests.support.patience import patience
from tests.support.world import World

HUB = Store(name="hub", service="hub", connection="relaybox_hub")


@pytest.fixture
def login(connected: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[RotatingLogin]:
    with rotating_login(monkeypatch) as login:
        yield login


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connections that Airflow was asked for, in order; each session asks anew."""
    monkeypatch.setattr(credential_renewal, "SHARED_SECONDS", 0.0)
    asked: list[str] = []
    ask = BaseHook.get_connection

    def counting(connection_id: str) -> Any:
        asked.append(connection_id)
        return ask(connection_id)

    monkeypatch.setattr(BaseHook, "get_connection", counting)
    return asked


def user_of(service: str = "hub") -> str:
    """Opens a session and says who it is."""
    with closing(connect(service, application_name="test")) as session, session.cursor() as cursor:
        cursor.execute("select session_user")
        return str(cursor.fetchone()[0])  # type: ignore[index]


def test_each_session_asks_airflow(login: RotatingLogin, asked: list[str]) -> None:
    """The file is read from the connection once when the task begins, and once for each session."""
    with service_file([HUB]):
        assert asked == ["relaybox_hub"]
        for _ in range(3):
            user_of()
        assert asked == ["relaybox_hub"] * 4


def test_sessions_that_begin_together_share_an_answer(
    login: RotatingLogin, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen slices don't ask a secrets backend sixteen times."""
    monkeypatch.setattr(credential_renewal, "SHARED_SECONDS", 600.0)
    with service_file([HUB]):
        threads = [threading.Thread(target=user_of) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience(60))
        assert asked == ["relaybox_hub"]


def test_a_rotated_password_is_in_the_file_before_the_next_session(login: RotatingLogin, asked: list[str]) -> None:
    """The server refuses nothing; the file keeps its mode, its place and its lock."""
    with service_file([HUB]) as path:
        user_of()
        login.change_password()
        login.tell_airflow()
        assert user_of() == login.name
        assert f"password={login.password}" in path.read_text().splitlines()
        assert path.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in path.parent.iterdir() if file.is_file()] == [path.name]
        os.utime(path, (0, 0))
        with service_file([HUB]):
            assert path.exists(), "the next task took it for a leftover"


def test_a_refused_login_is_asked_for_once_more(login: RotatingLogin, caplog: pytest.LogCaptureFixture) -> None:
    """The answer of a moment ago was shared, and is what the server refuses: the session asks again, and begins."""
    caplog.set_level(logging.INFO)
    with service_file([HUB]):
        login.change_password()
        login.tell_airflow()
        assert user_of() == login.name
    assert 'credentials_renewed service=hub source="Airflow connection relaybox_hub"' in caplog.messages
    assert login.password not in caplog.text


def test_a_login_that_was_never_accepted_is_final(login: RotatingLogin) -> None:
    """Wrong also when it is asked for again: no retry, and what to correct."""
    login.change_password()
    with service_file([HUB]), pytest.raises(errors.StoreUnusable) as refused:
        user_of()
    assert "the server refused the connection, also with fresh credentials" in str(refused.value)
    assert refused.value.next_step.startswith("Correct login and password of Airflow connection relaybox_hub")


def test_a_login_that_was_accepted_before_is_worth_a_retry(login: RotatingLogin) -> None:
    """The server has the new password, and the secrets backend gets it in a moment. The next attempt of the task begins anew."""
    with service_file([HUB]):
        user_of()
        login.change_password()
        with pytest.raises(errors.StoreUnreachable, match="refused a login that it accepted before"):
            user_of()
        login.tell_airflow()
        assert user_of() == login.name


def test_a_login_that_is_barred_fails_the_second_attempt(login: RotatingLogin) -> None:
    """28000 after it was accepted costs one retry; then it is final."""
    with service_file([HUB]):
        user_of()
        login.alter("nologin")
        with pytest.raises(errors.StoreUnreachable):
            user_of()
    with service_file([HUB]), pytest.raises(errors.StoreUnusable, match="not permitted to log in"):
        user_of()


def test_a_connection_that_is_gone_for_now_stops_no_session(
    login: RotatingLogin, asked: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow says the same where its API server or secrets backend fails: the session begins with what the file has, and warns."""
    with service_file([HUB]):
        with monkeypatch.context() as patch:
            patch.delenv("AIRFLOW_CONN_RELAYBOX_HUB")
            assert user_of() == login.name
            assert "credentials_not_renewed service=hub" in caplog.text
            login.change_password()
            with pytest.raises(errors.StoreUnreachable, match="gave no fresh credentials: AirflowNotFoundException"):
                user_of()
        login.tell_airflow()
        assert user_of() == login.name


def test_a_connection_that_was_spoilt_stops_the_next_session(
    login: RotatingLogin, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person changes it while the task runs: the error is the one that the task would begin with."""
    with service_file([HUB]) as path:
        before = path.read_text()
        change_connection(monkeypatch, "RELAYBOX_HUB", extra={"sslmod": "require"})
        with pytest.raises(errors.ConfigurationError, match="its extra sslmod is not passed on to libpq"):
            user_of()
        assert path.read_text() == before


def test_an_airflow_that_does_not_answer_stops_no_session(
    login: RotatingLogin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One question hangs, and no second one is put beside it; when it ends, the task ends without waiting for it."""
    monkeypatch.setattr(credential_renewal, "SHARED_SECONDS", 0.0)
    monkeypatch.setattr(credential_renewal, "ASK_SECONDS", 0.2)
    ended, hanging = threading.Event(), []

    def hang(connection_id: str) -> dict[str, str]:
        hanging.append(connection_id)
        ended.wait(patience(120))
        raise TimeoutError

    with service_file([HUB]) as path:
        monkeypatch.setattr(BaseHook, "get_connection", hang)
        assert [user_of(), user_of()] == [login.name] * 2
        assert "Airflow did not answer within 0.2 s" in caplog.text
    assert hanging == ["relaybox_hub"]
    assert not path.parent.exists()
    ended.set()


def test_a_full_disk_keeps_the_former_file(login: RotatingLogin, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a file would be no credentials at all."""
    with service_file([HUB]) as path:
        user_of()
        before = path.read_text()
        (path.parent / f"{path.name}.new").mkdir()  # where the fresh one would be written
        login.change_password()
        login.tell_airflow()
        with pytest.raises(errors.StoreUnreachable, match="gave no fresh credentials: "):
            user_of()
        assert path.read_text() == before
        (path.parent / f"{path.name}.new").rmdir()
        assert user_of() == login.name


def test_a_process_of_the_task_gets_fresh_credentials(login: RotatingLogin) -> None:
    """A Spark driver and its workers have neither Airflow's connections nor its environment: they ask through the file's directory."""
    program = (
        "import sys\nfrom relaybox.stores.sessions.connections import connect\n"
        "connect('hub', application_name='test').close()\nprint('in', flush=True)\nsys.stdin.readline()\n"
        "connect('hub', application_name='test').close()\nprint('in again', flush=True)\n"
    )
    with service_file([HUB]):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        with subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "in\n"
            login.change_password()
            login.tell_airflow()
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.read() == "in again\n"


def test_a_token_of_any_length_reaches_the_server(login: RotatingLogin, asked: list[str]) -> None:
    """A line of a service file ends at 1,022 bytes, and tokens of AWS and Azure are longer: a password file has them."""
    for length in (1, 990, 1010, 1500, 4000):
        password = ("a:b\\c=d&%'\" " * length)[: length - 1] + "z"
        login.alter("password %s", password)
        login.password = password
        login.tell_airflow()
        with service_file([HUB]) as path:
            assert user_of() == login.name
            assert all(len(line) < 1020 for line in path.read_text().splitlines())
            assert all(file.stat().st_mode & 0o777 == 0o600 for file in path.parent.iterdir() if file.is_file())


def test_former_password_files_go(login: RotatingLogin, asked: list[str]) -> None:
    """A task of hours gets hundreds of tokens."""
    with service_file([HUB]) as path:
        for number in range(30):
            login.password = f"{'x' * 1100}{number}"
            login.tell_airflow()
            renew_credentials("hub")
        assert 20 <= len(list(path.parent.glob("password-*"))) <= 21


def test_a_directory_that_others_may_write_to_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user could answer there, and have each session wait."""
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    renewals = credential_renewal.Renewals({}, {}, lambda _: None)
    with credential_renewal.serving(tmp_path, renewals):
        assert renew_credentials("hub") == Renewal(failure="no store of this task has the service hub")
        tmp_path.chmod(0o777)
        assert renew_credentials("hub") is None
    tmp_path.chmod(0o700)


def test_a_task_that_is_gone_is_a_reason_and_no_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is still there, and nobody listens."""
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    with credential_renewal.serving(tmp_path, credential_renewal.Renewals({}, {}, lambda _: None)):
        pass
    began_at = time.monotonic()
    renewal = renew_credentials("hub")
    assert renewal is not None
    assert "the task that wrote the service file does not answer" in renewal.failure
    assert time.monotonic() - began_at < patience(10)


def test_a_service_file_of_its_owner_is_not_renewed(connected: World) -> None:
    """On the command line, and for consumers: libpq reads the file anew for each session, and that is all."""
    assert renew_credentials("hub") is None
    note_admitted("hub")
    assert user_of()
