"""Credentials reach a task by a file that only its user can read, and by nothing else."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox.airflow.service_file import service_file
from relaybox.errors import ConfigurationError
from relaybox.routes import Store
from tests.support.world import World

HUB = Store(name="hub", service="hub", connection="relaybox_hub")
FIELDS = {
    "conn_type": "postgres",
    "host": "db.example",
    "port": 5433,
    "login": "mover",
    "password": "s;e=c r#e't",
    "schema": "hub",
}


def connect(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    """Defines the Airflow connection relaybox_hub."""
    monkeypatch.setenv("AIRFLOW_CONN_RELAYBOX_HUB", json.dumps({**FIELDS, **fields}))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go, empty at first."""
    directory = tmp_path / "tmp"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def test_the_file_holds_what_libpq_needs(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One section per store, in libpq's words, extras of the allow-list included."""
    connect(monkeypatch, extra={"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem"})
    with service_file([HUB]) as path:
        assert path.read_text().splitlines() == [
            "[hub]",
            "host=db.example",
            "dbname=hub",
            "user=mover",
            "port=5433",
            "password=s;e=c r#e't",
            "sslmode=verify-full",
            "sslrootcert=/etc/ca.pem",
        ]


def test_only_its_user_can_read_the_file(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """0600 in a folder of 0700, whatever the umask."""
    connect(monkeypatch)
    before = os.umask(0)
    try:
        with service_file([HUB]) as path:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_file_is_gone_afterwards(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the task fails, and PGSERVICEFILE is what it was."""
    connect(monkeypatch)
    monkeypatch.setenv("PGSERVICEFILE", "/etc/mine")
    with pytest.raises(ZeroDivisionError), service_file([HUB]) as path:
        assert os.environ["PGSERVICEFILE"] == str(path)
        _ = 1 / 0
    assert os.environ["PGSERVICEFILE"] == "/etc/mine"
    assert list(temporary.iterdir()) == []


def test_a_killed_tasks_file_is_removed_by_the_next_one(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a dead process goes; that of a living one stays, however old it is."""
    connect(monkeypatch)
    killed = _leave_behind(temporary)
    with service_file([HUB]) as alive:
        for path in (killed, alive):
            os.utime(path, (0, 0))
        with service_file([HUB]):
            assert not killed.exists()
            assert alive.exists()


def plant(directory: Path, kind: str) -> Path:
    """What another user could put into a shared directory under the name of a killed task's file."""
    path = directory / "relaybox-services-planted" / "pg_service.conf"
    path.parent.mkdir(mode=0o700)
    if kind == "link":
        target = directory / "precious"
        target.write_text("kept")
        path.symlink_to(target)
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.parent.chmod(0o777 if kind == "writable directory" else 0o700)
        path.write_text("kept")
    os.utime(path, (0, 0))
    return path


@pytest.mark.parametrize("kind", ["FIFO", "link", "writable directory", "another user's"])
def test_what_is_planted_in_the_shared_directory_stops_no_task(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A FIFO without a writer blocks every process that opens it: the task would hang until its time limit. None of it is opened or removed."""
    connect(monkeypatch)
    path = plant(temporary, kind)
    if kind == "another user's":
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    previous = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(20)
    try:
        with service_file([HUB]) as written:
            assert written.exists()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    assert os.path.lexists(path)
    assert {file.read_text() for file in temporary.rglob("*") if file.is_file()} == (set() if kind == "FIFO" else {"kept"})


def _hangs(*_: object) -> None:
    raise AssertionError("it waits for a writer of the FIFO")  # no OSError, which a clean-up passes over


def _leave_behind(temporary: Path) -> Path:
    """Has a process write a service file and be killed."""
    program = (
        "import os, signal, tempfile\n"
        f"tempfile.tempdir = {str(temporary)!r}\n"
        "from relaybox.airflow.service_file import service_file\n"
        "from relaybox.routes import Store\n"
        "with service_file([Store(name='hub', service='hub', connection='relaybox_hub')]) as path:\n"
        "    print(path, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert answer.returncode == -9, answer.stderr
    return Path(answer.stdout.split()[-1])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"conn_type": "mysql"}, "its type is mysql; it must be relaybox or postgres or generic"),
        ({"host": ""}, "it has no host"),
        ({"login": None, "schema": ""}, "it has no schema (the database) and no login"),
        ({"password": "two\nlines"}, "its password begins or ends with white space, or has a line break in it"),
        ({"password": " padded"}, "its password begins or ends with white space"),
        ({"password": "padded\t"}, "its password begins or ends with white space"),
        ({"password": "nul\0"}, "its password begins or ends with white space"),
        ({"schema": "hub\nhost=evil"}, "its dbname begins or ends with white space, or has a line break in it"),
        ({"extra": {"sslmod": "verify-full"}}, "its extra sslmod is not passed on to libpq; Did you mean sslmode?"),
    ],
)
def test_what_a_service_file_cannot_hold_is_refused(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], said: str
) -> None:
    """One clear error that names the connection and the field, never the value; nothing is written."""
    connect(monkeypatch, **fields)
    with pytest.raises(ConfigurationError) as refused, service_file([HUB]):
        pass
    assert f"Airflow connection relaybox_hub: {said}" in str(refused.value)
    assert "padded" not in str(refused.value).replace("begins or ends", "")
    assert list(temporary.iterdir()) == []


def test_libpq_reads_the_file(connected: World) -> None:
    """The file that was written from an Airflow connection opens a session with a password."""
    with service_file(connected.routes.stores.values()) as path:
        assert os.environ["PGSERVICEFILE"] == str(path)
        connection = psycopg2.connect(service="analytics")
        connection.close()


def test_a_password_with_every_printable_character_survives(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, backslashes, equals, hashes and brackets reach the server as they are."""
    password = "[x] " + "".join(chr(code) for code in range(33, 127)) + " ü"
    connected.query("hub", "create role odd login password %s", password)
    try:
        fields = json.loads(os.environ["AIRFLOW_CONN_RELAYBOX_HUB"])
        connect(monkeypatch, **{**fields, "login": "odd", "password": password})
        with service_file([HUB]):
            connection = psycopg2.connect(service="hub")
            connection.close()
    finally:
        connected.query("hub", "drop role odd")
