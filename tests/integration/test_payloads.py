"""A large payload is in its file before its message commits, and is read only if it is what the message says."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from relaybox.consumer import Consumer, Message
from relaybox.errors import PayloadDiffers, PayloadMissing, PayloadReferenceInvalid, PayloadsUnavailable
from relaybox.outbox import Payload, put
from relaybox.payloads import HEADER, MARK, LargePayload, PayloadStore, reference_of
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.world import World

PAGE = Path(__file__).parents[2] / "docs" / "large-messages.md"


@dataclass(frozen=True)
class Sent:
    """What a reader sees of a message."""

    headers: Any
    payload: Any = None
    payload_bytes: Any = None


@pytest.fixture
def payloads(tmp_path: Path) -> PayloadStore:
    store = PayloadStore(tmp_path / "payloads")
    store.prepare()
    return store


def files(payloads: PayloadStore) -> list[Path]:
    return sorted(path for path in payloads.directory.rglob("*") if path.is_file() and path.name != MARK)


def send(world: World, large: LargePayload) -> None:
    with world.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", large.payload, headers=large.headers)
        connection.commit()


def consume(world: World, payloads: PayloadStore) -> list[str | bytes]:
    """What a worker of `pictures` reads, until nothing is there."""
    read: list[str | bytes] = []

    def handle(connection: Any, message: Message) -> None:
        read.append(payloads.read(message))

    with Consumer("hub", "pictures", until_empty=True) as consumer:
        consumer.run(handle)
    return read


@pytest.fixture
def pictures(world: World) -> World:
    world.query("hub", "select relaybox.subscribe('pictures', 'flights', nack_limit => 1)")
    return world


def dead_letters(world: World) -> list[tuple[Any, ...]]:
    return world.query("hub", "select detail from relaybox.dead_letters order by stream_position")


@pytest.mark.parametrize("payload", ["ä" * 9, b"\x00\xff", "", b"", {"a": ["ä", 1.50]}, [1]])
def test_a_payload_is_read_as_it_was_written(payloads: PayloadStore, payload: Payload) -> None:
    """Text as text, bytes as bytes, an object as its JSON; other headers stay."""
    large = payloads.write(payload, headers={"trace": 1})
    assert large.headers["trace"] == 1
    found = payloads.read(Sent(dict(large.headers), json.dumps(large.payload)))
    assert (json.loads(found) if isinstance(payload, dict | list) else found) == payload


def test_a_message_that_has_its_payload_itself_gives_it(payloads: PayloadStore) -> None:
    assert payloads.read(Sent(None, "a")) == "a"
    assert payloads.read(Sent({"trace": 1}, None, b"a")) == b"a"


def test_a_large_payload_arrives_over_a_route(pictures: World, payloads: PayloadStore) -> None:
    """Larger than the outbox takes."""
    content = bytes(17 * 2**20)
    send(pictures, payloads.write(content))
    pictures.transfer()
    assert consume(pictures, payloads) == [content]
    assert dead_letters(pictures) == []


def test_no_two_writes_share_a_file(payloads: PayloadStore) -> None:
    """So the file of one message never depends on that of another."""
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(payloads.write, ["same"] * 20))
    assert len({large.reference.ref for large in written}) == len(files(payloads)) == 20
    assert len({large.reference.digest for large in written}) == 1


def test_the_file_and_its_name_are_flushed_before_write_returns(payloads: PayloadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content before the name, the new directory of the day, and the directory after the name."""
    flushed: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    path = payloads.directory / payloads.write("a").reference.ref
    assert flushed == [str(payloads.directory), f"{path}.partial", str(path.parent)]


def test_a_killed_write_leaves_no_file_that_a_reference_could_name(payloads: PayloadStore) -> None:
    """Killed between the content and its name."""
    program = (
        "import os, signal, sys; from pathlib import Path; from relaybox.payloads import PayloadStore;"
        "Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL); PayloadStore(sys.argv[1]).write('a')"
    )
    run = subprocess.run([sys.executable, "-c", program, str(payloads.directory)], timeout=patience(30), check=False)
    assert run.returncode == -signal.SIGKILL
    assert [path.suffix for path in files(payloads)] == [".partial"]


def test_a_folder_that_a_collection_removes_is_made_again(payloads: PayloadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is empty between the moment at which a writer makes it and its first file."""
    made = []
    mkdir = Path.mkdir

    def make_and_lose(folder: Path, *arguments: Any, **options: Any) -> None:
        mkdir(folder, *arguments, **options)
        if not made:
            made.append(folder)
            payloads.files.remove_empty_folders("")

    monkeypatch.setattr(Path, "mkdir", make_and_lose)
    large = payloads.write("a")
    assert made
    assert payloads.read(Sent(large.headers)) == "a"


def test_a_write_that_fails_leaves_nothing_that_fills_the_disk(payloads: PayloadStore) -> None:
    """A limit of the process stands for a full disk: the beginning of the file is written, and then no more."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        with pytest.raises(PayloadsUnavailable, match="File too large"):
            payloads.write(bytes(2**21))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert files(payloads) == []


def test_g1_a_rollback_leaves_a_file_and_no_message(pictures: World, payloads: PayloadStore) -> None:
    large = payloads.write("a")
    with pictures.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", large.payload, headers=large.headers)
        connection.rollback()
    assert pictures.sent() == []
    assert files(payloads) == [payloads.directory / large.reference.ref]


def test_a_missing_and_a_changed_file_make_dead_letters_that_name_it_and_come_back(
    pictures: World, payloads: PayloadStore
) -> None:
    """The other message is read; after a repair the redriven ones are too."""
    missing, changed, cut, fine = (payloads.write(text) for text in ("missing", "changed", "cut", "fine"))
    for large in (missing, changed, cut, fine):
        send(pictures, large)
    (payloads.directory / missing.reference.ref).unlink()
    (payloads.directory / changed.reference.ref).write_text("CHANGED")
    (payloads.directory / cut.reference.ref).write_text("cu")
    pictures.transfer()
    assert consume(pictures, payloads) == ["fine"]
    reasons = [row[0] for row in dead_letters(pictures)]
    assert [reason.partition(":")[0] for reason in reasons] == ["PayloadMissing", "PayloadDiffers", "PayloadDiffers"]
    for large, reason in zip((missing, changed, cut), reasons, strict=True):
        assert large.reference.ref in reason
    for large, text in ((missing, "missing"), (changed, "changed"), (cut, "cut")):
        (payloads.directory / large.reference.ref).write_text(text)
    pictures.query("hub", "select relaybox.redrive('pictures', 'files restored')")
    assert sorted(consume(pictures, payloads), key=str) == ["changed", "cut", "missing"]


def test_what_has_the_name_of_a_file_and_is_none_is_missing(pictures: World, payloads: PayloadStore) -> None:
    """The open of a named pipe would wait for its writer for ever, and so would all messages behind it."""
    pipe, folder, fine = (payloads.write(text) for text in ("pipe", "folder", "fine"))
    for large in (pipe, folder, fine):
        send(pictures, large)
    for large, make in ((pipe, os.mkfifo), (folder, os.mkdir)):
        (payloads.directory / large.reference.ref).unlink()
        make(payloads.directory / large.reference.ref)
    pictures.transfer()
    assert consume(pictures, payloads) == ["fine"]
    assert [row[0].partition(":")[0] for row in dead_letters(pictures)] == ["PayloadMissing", "PayloadMissing"]


def test_no_more_is_read_of_a_file_than_the_message_says(payloads: PayloadStore) -> None:
    """A file that grew to a terabyte, without a byte on the disk."""
    reference = payloads.write("a").reference
    os.truncate(payloads.directory / reference.ref, 2**40)
    with pytest.raises(PayloadDiffers, match="has more than 1 bytes"):
        payloads.read(Sent({HEADER: vars(reference)}))


def test_bytes_that_a_message_calls_text_are_refused(payloads: PayloadStore) -> None:
    reference = payloads.write(b"\xff").reference
    with pytest.raises(PayloadReferenceInvalid, match="no UTF-8"):
        payloads.read(Sent({HEADER: vars(replace(reference, column="payload"))}))


def test_a_directory_that_is_not_mounted_refuses_no_message(pictures: World, payloads: PayloadStore, tmp_path: Path) -> None:
    """Else each message would become a dead letter."""
    send(pictures, payloads.write("a"))
    pictures.transfer()
    payloads.directory.rename(tmp_path / "elsewhere")
    payloads.directory.mkdir()  # the mount point
    with pytest.raises(PayloadsUnavailable, match="not mounted"), Consumer("hub", "pictures", until_empty=True) as consumer:
        for message in consumer:
            payloads.read(message)
    assert dead_letters(pictures) == []
    with pytest.raises(PayloadsUnavailable, match="not mounted"):
        payloads.write("a")
    assert consume(pictures, PayloadStore(tmp_path / "elsewhere")) == ["a"]


def test_a_reference_to_another_place_is_refused(payloads: PayloadStore, tmp_path: Path) -> None:
    other = PayloadStore(tmp_path / "other")
    assert other.prepare() != payloads.prepare()
    large = payloads.write("a")
    with pytest.raises(PayloadReferenceInvalid, match=re.escape(large.reference.place)):
        other.read(Sent(large.headers))


def test_a_place_is_prepared_once(tmp_path: Path) -> None:
    store = PayloadStore(tmp_path / "new" / "payloads")
    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(lambda _: store.prepare(), range(8)))
    assert len(ids) == 1
    assert [path.name for path in store.directory.iterdir()] == [MARK]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("ref", "../../etc/passwd"),
        ("ref", "/etc/passwd"),
        ("ref", 1),
        ("digest", "md5:00"),
        ("bytes", True),
        ("bytes", -1),
        ("column", "headers"),
        ("place", None),
    ],
)
def test_a_header_that_is_no_reference_opens_no_file(payloads: PayloadStore, member: str, value: object) -> None:
    header = {**vars(payloads.write("a").reference), member: value}
    with pytest.raises(PayloadReferenceInvalid):
        payloads.read(Sent({HEADER: header}))
    with pytest.raises(PayloadReferenceInvalid):
        reference_of(Sent({HEADER: "text"}))


def test_a_reference_with_other_numbers_is_not_believed(payloads: PayloadStore) -> None:
    reference = payloads.write("a").reference
    with pytest.raises(PayloadDiffers):
        payloads.read(Sent({HEADER: vars(replace(reference, bytes=2))}))
    with pytest.raises(PayloadMissing):
        payloads.read(Sent({HEADER: vars(replace(reference, ref=reference.ref[:-32] + "0" * 32))}))
    with pytest.raises(ValueError, match=HEADER):
        payloads.write("a", headers={HEADER: 1})


def test_the_programs_of_the_page_run(pictures: World, tmp_path: Path) -> None:
    """docs/large-messages.md, with a directory of the test."""
    page = PAGE.read_text(encoding="utf-8").replace("/srv/payloads", str(tmp_path / "srv"))
    sender, reader = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (section,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    pictures.path.write_text(pictures.path.read_text() + section)
    prepare, collect = (
        [line.partition("#")[0].split()[1:] for line in block.splitlines()]
        for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
    )

    def run(program: str) -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=patience(60)).stdout

    assert [invoke(*command).exit_code for command in prepare] == [0]
    run(sender)
    pictures.transfer()
    assert [invoke(*command).exit_code for command in collect] == [0] * 4
    assert run(reader) == f"{20 * 2**20}\n"
    content = page.partition("```js\n")[2].partition("```")[0]
    headers = pictures.value("hub", "select headers::text from relaybox.read_log('flights/1')")
    node = ["node", "-e", f"const message = {{headers: {headers}}};{content};console.log(content.length)"]
    assert subprocess.run(node, check=True, capture_output=True, text=True, timeout=patience(60)).stdout == f"{20 * 2**20}\n"
