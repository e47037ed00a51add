"""Large payloads in an object store: written once, verified, collected and brought back; and a store that refuses or dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from relaybox import errors
from relaybox.object_stores import open_object_store
from relaybox.payloads import LargePayload, PayloadStore
from relaybox.payloads.listing import list_place
from relaybox.payloads.preparing import prepare_place
from relaybox.payloads.trash import restore_files
from tests.support.object_store import BUCKET, SECRET, ObjectStore, running_object_store
from tests.support.patience import patience
from tests.support.payloads import add_place, collect, place_of, refs, send, stores_of
from tests.support.world import World


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with running_object_store() as running:
        yield running


@pytest.fixture
def bucket(world: World, server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PayloadStore:
    """A place that remembers the stores. Its files are as old as they say: the object store knows only when they were put."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    add_place(world, f"s3://{BUCKET}/{tmp_path.name}")
    prepare_place(place_of(world), stores_of(world), recorded_by="test")
    return PayloadStore(place_of(world).location)


def names(store: PayloadStore) -> tuple[set[str], set[str]]:
    """Files of payloads, and what is in the trash."""
    listing = list_place(store.files)
    assert not listing.partials
    return set(listing.files), {one.ref for one in listing.trash}


class Sent:
    def __init__(self, large: LargePayload) -> None:
        self.headers = large.headers


def test_a_payload_is_read_as_it_was_put(bucket: PayloadStore) -> None:
    for payload in ("ä" * 9, b"\x00\xff", b"", bytes(12 * 2**20)):
        assert bucket.read(Sent(bucket.write(payload))) == payload


def test_a_missing_and_a_changed_object_are_told_apart(bucket: PayloadStore) -> None:
    missing, changed, longer = bucket.write("a"), bucket.write("b"), bucket.write("c")
    bucket.files.remove(missing.reference.ref)
    bucket.files.replace(changed.reference.ref, b"c", "spoiling it")
    bucket.files.replace(longer.reference.ref, b"c" * 9, "spoiling it")
    with pytest.raises(errors.PayloadMissing):
        bucket.read(Sent(missing))
    with pytest.raises(errors.PayloadDiffers):
        bucket.read(Sent(changed))
    with pytest.raises(errors.PayloadDiffers, match="more than 1 bytes"):
        bucket.read(Sent(longer))


def test_no_object_is_ever_put_over_another(bucket: PayloadStore) -> None:
    large = bucket.write("first")
    bucket.files.write_new(large.reference.ref, b"second", "repeating a request")
    assert bucket.read(Sent(large)) == "first"
    assert bucket.files.create(".relaybox-payloads.json", b"{}", "preparing it") is False


def test_what_no_message_refers_to_is_collected_and_comes_back(world: World, bucket: PayloadStore) -> None:
    kept, orphan = bucket.write("kept"), bucket.write("orphan")
    send(world, kept)
    assert collect(world).young.count == 1
    done = collect(world, grace_seconds=-60)
    assert (done.trashed.count, names(bucket)) == (1, (refs(kept), refs(orphan)))
    assert restore_files(place_of(world), stores_of(world), everything=True).restored.count == 1
    assert bucket.read(Sent(orphan)) == "orphan"
    collect(world, grace_seconds=-60)
    assert collect(world, grace_seconds=-60, trash_seconds=-60).removed.count == 1
    assert names(bucket) == (refs(kept), set())


def test_more_objects_than_a_page_of_the_object_store_are_listed(bucket: PayloadStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 answers with 1,000 objects at a time."""
    for number in range(1_005):
        bucket.files.create(f".stores/{number}.json", b"", "filling it")
    assert len(list(bucket.files.list_files(".stores"))) == 1_005 + 3
    assert len(list(bucket.files.list_files())) == 1_005 + 3 + 1


KILLED = """
from dataclasses import replace
from relaybox.payloads.collecting import collect_place
from relaybox.routes import load_routes

routes = load_routes()
place = replace(routes.payload_place("pictures"), grace_seconds=-60, trash_seconds=-60)
collect_place(place, list(routes.stores.values()), recorded_by="test")
"""


@pytest.mark.parametrize("failpoint", ["payloads.put_back", "payloads.trashed", "payloads.removed"])
def test_a_collection_that_is_killed_is_gone_on_with(world: World, bucket: PayloadStore, tmp_path: Path, failpoint: str) -> None:
    kept, back, orphan = bucket.write("kept"), bucket.write("back"), bucket.write("orphan")
    send(world, kept)
    collect(world, grace_seconds=-60)
    send(world, back)
    more = bucket.write("more")
    environment = {"FAILPOINTS": f"{failpoint}=kill", "FAILPOINTS_DIRECTORY": str(tmp_path), "ENVIRONMENT": "test"}
    killed = subprocess.run(  # no fork: it would have no threads of obstore
        [sys.executable, "-c", KILLED],
        env={**os.environ, **{f"RELAYBOX_{name}": value for name, value in environment.items()}},
        timeout=patience(120),
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    collect(world, grace_seconds=-60)
    collect(world, grace_seconds=-60, trash_seconds=-60)
    assert names(bucket) == (refs(kept, back), set())
    assert not refs(orphan, more) & names(bucket)[0]


def test_a_move_that_was_killed_between_copy_and_removal_is_finished(world: World, bucket: PayloadStore) -> None:
    """Then the object is in both places."""
    kept, orphan = bucket.write("kept"), bucket.write("orphan")
    send(world, kept)
    store = open_object_store(place_of(world).location)
    for large in (kept, orphan):
        obstore.copy(store, large.reference.ref, f".trash/20261101T000000Z/{large.reference.ref}")
    done = collect(world, grace_seconds=-60)
    assert (done.trashed.count, done.put_back.count) == (1, 0)
    collect(world, grace_seconds=-60, trash_seconds=-60)
    assert names(bucket) == (refs(kept), set())


def test_an_object_store_that_refuses_is_named_without_a_secret(
    bucket: PayloadStore, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(errors.PayloadsUnavailable, match="s3://lake/") as told:
        PayloadStore(bucket.files.where).write("a")
    assert SECRET not in f"{told.value!r} {told.value} {told.value.__cause__!r}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    with pytest.raises(errors.PayloadsUnavailable):
        PayloadStore("s3://nowhere/payloads").write("a")


def test_an_object_store_without_conditional_puts_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_object_store(ignores_conditions=True) as careless:
        for name, value in careless.environment().items():
            monkeypatch.setenv(name, value)
        with pytest.raises(errors.ConfigurationError, match="no conditional put"):
            PayloadStore(f"s3://{BUCKET}/{tmp_path.name}").prepare()
