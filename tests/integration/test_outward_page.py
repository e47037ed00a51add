"""The receiver of docs/outward.md does what the page says of it."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from standardwebhooks import Webhook as Signer

from tests.support.patience import patience
from tests.support.sinks import OLDER_SECRET, SECRET, WHERE, deliver_waiting, webhook
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

PAGE = Path(__file__).parents[2] / "docs/outward.md"


@contextmanager
def receiver(directory: Path) -> Iterator[str]:
    """The program of the page; gives its URL."""
    (program,) = re.findall(r"<!-- receiver: .*? -->\n\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    path = directory / "receive.py"
    path.write_text(program)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(path), str(port), SECRET, str(directory / "received.db")], stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: _answers(port) or process.poll() is not None, "the receiver answers")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(patience(30))


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_the_receiver_writes_each_message_once_and_refuses_other_signatures(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when everything is sent a second time, and while a secret is replaced."""
    monkeypatch.setenv(WHERE, SECRET)
    monkeypatch.setenv("OLDER", OLDER_SECRET)
    deliver(world, 3)
    with receiver(tmp_path) as url:
        sink = webhook(world, url, secrets=["env:OLDER", f"env:{WHERE}"])
        assert deliver_waiting(sink).delivered_count == 3
        world.query(STORE, "select relaybox.replay('webhook.billing', 'earliest', 'again')")
        assert deliver_waiting(sink).delivered_count == 3
        with closing(sqlite3.connect(tmp_path / "received.db")) as database:
            received = database.execute("select message_id, body from received order by rowid").fetchall()
        sent = world.query(
            STORE, "select message_id::text, payload from relaybox.read_stream('flights') order by stream_position"
        )
        assert [(message_id, json.loads(body)["data"]) for message_id, body in received] == sent
        for secret, seconds, expected in ((SECRET, 0, 204), (OLDER_SECRET, 0, 401), (SECRET, -3600, 401)):
            assert _post(url, secret, seconds) == expected


def test_the_receiver_takes_the_messages_of_several_lanes(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane sends over a connection of its own, at the same time as the others."""
    monkeypatch.setenv(WHERE, SECRET)
    deliver(world, 40, senders=10)
    with receiver(tmp_path) as url:
        sink = webhook(world, url, lanes=4, read_seconds=60, total_seconds=60, open_after_failures=1)
        assert deliver_waiting(sink).delivered_count == 40
    with closing(sqlite3.connect(tmp_path / "received.db")) as database:
        assert database.execute("select count(*) from received").fetchone() == (40,)


def _post(url: str, secret: str, seconds: int) -> int:
    """The answer to a request that was signed so many seconds from now."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    headers = {
        "webhook-id": f"of {secret} {seconds}",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signer(secret).sign(f"of {secret} {seconds}", at, "{}"),
    }
    return httpx.post(url, content=b"{}", headers=headers, timeout=patience(30)).status_code


def _statement(name: str) -> str:
    """The SQL block of the page that begins with this comment."""
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(f"-- {name}")]
    return str(found)


def test_the_documented_start_in_another_store_is_that_of_the_oldest_known_id(world: World) -> None:
    """Of the last two messages that were sent, instead of a thousand. What was sent after them comes next; without ids: earliest."""
    world.send_many(5)
    world.transfer_all()
    world.query(STORE, "select relaybox.subscribe('kafka.k1', 'flights')")
    ids = _statement("ids that k1 has sent").replace("- 1000", "- 2")
    start = _statement("start of k1 in the new store")
    assert world.value(STORE, ids) is None
    assert world.value("analytics", start.replace("IDS", "")) == "earliest"
    rows = world.query(STORE, "select stream_position, message_id::text, token from relaybox.fetch('kafka.k1', 3)")
    world.query(STORE, "select relaybox.ack('kafka.k1', %s, %s)", rows[-1][0], rows[-1][2])
    assert world.value(STORE, ids) == ",".join(message_id for _, message_id, _ in rows[1:])
    found = world.value("analytics", start.replace("IDS", world.value(STORE, ids)))
    world.query("analytics", "select relaybox.subscribe('kafka.k1', 'flights', %s)", found)
    again = world.query("analytics", "select message_id::text from relaybox.fetch('kafka.k1', 10)")
    assert [message_id for (message_id,) in again][:2] == [message_id for _, message_id, _ in rows[1:]]
    assert len(again) == 4
