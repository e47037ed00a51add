"""What is in a place of payloads, and whether each message has its file: `relaybox payloads list` and `check`, retention and doctor."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaybox.monitoring.doctor.examination import examine_stores
from relaybox.payloads import PayloadStore
from relaybox.payloads.checking import check_place
from relaybox.payloads.preparing import prepare_place
from tests.support.cli import invoke
from tests.support.payloads import PLACE, Directory, add_place, collect, place_of, refs, send, stores_of
from tests.support.world import World


@pytest.fixture
def place(world: World, tmp_path: Path) -> Directory:
    add_place(world, tmp_path / "payloads")
    prepare_place(place_of(world), stores_of(world), recorded_by="test")
    return Directory(PayloadStore(tmp_path / "payloads"))


def test_a_list_says_which_files_messages_refer_to(world: World, place: Directory) -> None:
    twice, orphan, young = place.write("four"), place.write(), place.store.write("new")
    send(world, twice, twice)
    document = invoke("payloads", "list", "--files", "--json").document
    (found,) = document["places"]
    assert {state: (total["count"], total["bytes"]) for state, total in found["files"].items()} == {
        "referenced": (1, 4),
        "unreferenced": (1, 7),
        "young": (1, 3),
    }
    assert {one["ref"]: one["message_count"] for one in found["details"]} == {
        **dict.fromkeys(refs(twice), 2),
        **dict.fromkeys(refs(orphan, young), 0),
    }
    assert [one["store"] for one in found["stores"]] == ["airline", "analytics", "hub"]
    text = invoke("payloads", "list", PLACE, "--files").stdout
    assert "2 messages refer to its files" in text
    assert next(iter(refs(orphan))) in text
    collect(world)
    assert "trash" in invoke("payloads", "list").stdout


def test_a_check_names_each_file_that_is_missing_or_differs_with_its_message(world: World, place: Directory) -> None:
    fine, missing, cut, changed, trashed = (place.write(text) for text in ("fine", "missing", "cut", "changed", "trashed"))
    send(world, fine, missing, cut, changed, trashed)
    world.transfer()
    assert invoke("payloads", "check").exit_code == 0
    (place.path / missing.reference.ref).unlink()
    (place.path / cut.reference.ref).write_text("cu")
    (place.path / changed.reference.ref).write_text("CHANGED")
    there = place.path / ".trash" / "20261101T000000Z" / trashed.reference.ref
    there.parent.mkdir(parents=True)
    (place.path / trashed.reference.ref).rename(there)
    run = invoke("payloads", "check", "--json")
    found = {one["ref"]: one for one in run.document["places"][0]["missing"]}
    assert run.exit_code == 1
    assert {ref: one["problem"] for ref, one in found.items()} == {
        missing.reference.ref: "missing",
        cut.reference.ref: "has 2 bytes, expected 3",
        trashed.reference.ref: "in the trash",
    }
    assert (found[missing.reference.ref]["store"], found[missing.reference.ref]["held_in"]) == ("airline", "outbox")
    assert found[missing.reference.ref]["position"] == 2
    run = invoke("payloads", "check", "--read")
    assert run.exit_code == 1
    assert f"{changed.reference.ref}: has sha256:" in run.stdout
    assert "relaybox payloads restore pictures" in run.stdout
    done = collect(world)
    assert (done.missing_count, done.put_back.count) == (1, 1)
    assert [one.ref for one in done.missing] == [missing.reference.ref]


def test_a_message_that_goes_while_it_is_checked_is_no_defect(
    world: World, place: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention dropped it, and a collection its file, between the two."""
    gone = place.write()
    send(world, gone)
    list_files = type(place.store.files).list_files

    def go_first(*arguments: object) -> object:
        world.query("airline", "truncate relaybox.outbox")
        (place.path / gone.reference.ref).unlink(missing_ok=True)
        return list_files(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(place.store.files), "list_files", go_first)
    assert check_place(place_of(world), stores_of(world)).missing == ()


def test_a_store_that_does_not_answer_is_no_missing_file(world: World, place: Directory, tmp_path: Path) -> None:
    send(world, place.write())
    services = tmp_path / "services.conf"
    services.write_text(services.read_text().replace("[hub]", "[hub]\nport=1\n[was_hub]"))
    run = invoke("payloads", "check", "--json")
    assert run.exit_code == 4
    assert list(run.document["places"][0]["errors"]) == ["hub"]
    run = invoke("payloads", "list", "--json")
    assert (run.exit_code, set(run.document["places"][0]["files"])) == (4, {"referenced"})


def test_retention_collects_when_all_stores_are_asked(world: World, place: Directory) -> None:
    orphan = place.write()
    assert invoke("retention", "--dry-run", "--json").document["payloads"][0]["trashed"]["count"] == 1
    run = invoke("retention", "hub")
    assert "payloads: only some stores were chosen, so nothing was collected of pictures" in run.stdout
    assert place.refs == refs(orphan)
    assert invoke("retention", "--json").document["payloads"][0]["trashed"]["count"] == 1
    assert (place.refs, place.trash) == (set(), refs(orphan))


def results(world: World) -> list[tuple[str, str]]:
    stores = stores_of(world)
    (report,) = examine_stores(stores[:1], world.routes)
    return [(str(one.severity), one.what) for one in report.results if one.check == "payloads"]


def test_doctor_says_whether_a_place_is_there_and_collected(world: World, place: Directory, tmp_path: Path) -> None:
    orphan = place.write("x" * 100)
    ((severity, what),) = results(world)
    assert (severity, "was never collected" in what) == ("warning", True)
    collect(world)
    ((severity, what),) = results(world)
    assert (severity, "was collected" in what) == ("ok", True)
    for number, text in (
        ("collected_at = now() - interval '4 days'", "not collected for 4 d"),
        ("collected_at = now(), unreferenced_bytes = 2000000000", "2,000.0 MB in 0 files"),
    ):
        world.query("airline", f"update relaybox_internal.payload_collection set {number}")
        ((severity, what),) = results(world)
        assert (severity, text in what) == ("warning", True), what
    place.path.rename(tmp_path / "elsewhere")
    ((severity, what),) = results(world)
    assert (severity, "not mounted" in what) == ("warning", True)
    assert refs(orphan)


def test_a_file_without_places_is_told_what_to_write(world: World) -> None:
    run = invoke("payloads", "collect", "--json")
    assert (run.exit_code, run.document["error"]["next_step"]) == (2, "Write the section payloads: see docs/large-messages.md")
