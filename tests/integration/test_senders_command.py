"""`relaybox senders`: what is declared where, and the words for what was done or refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cli import invoke
from tests.support.world import World

KEYS = {"store", "sender", "origin", "kind", "epoch", "declared_at", "declared_by", "last_index", "roles"}


@pytest.fixture
def role(world: World) -> Iterator[str]:
    world.query("airline", "create role app_pump")
    yield "app_pump"
    world.query("airline", "drop role app_pump")


def test_senders_are_listed_with_kind_epoch_counter_and_roles(world: World, role: str) -> None:
    """Declared by the command, numbered by producers; those carried to another store are shown there too."""
    assert invoke("senders").stdout.startswith("No sender is declared.")
    assert invoke("senders", "declare", "airline", "pump", "gapless").stdout == "pump of airline is gapless in epoch 1\n"
    assert invoke("senders", "declare", "airline", "probe", "sparse", "--json").document == {
        "store": "airline", "sender": "probe", "kind": "sparse", "epoch": 1,
    }  # fmt: skip
    assert invoke("senders", "new-epoch", "airline", "pump").stdout == "pump of airline begins epoch 2 with index 1\n"
    world.query("airline", "select relaybox.next_index('pump')")
    for sender in ("pump", "UA"):
        assert invoke("senders", "bind", "airline", sender, role).exit_code == 0
    world.query(
        "hub", "insert into relaybox_internal.sender (origin, sender, epoch, kind) values ('airline', 'pump', 2, 'gapless')"
    )
    listed = invoke("senders", "--json")
    assert (listed.exit_code, set(listed.document), listed.document["errors"]) == (0, {"senders", "errors"}, {})
    assert all(set(one) == KEYS for one in listed.document["senders"])
    shown = ("store", "sender", "origin", "kind", "epoch", "last_index", "roles")
    assert [tuple(one[key] for key in shown) for one in listed.document["senders"]] == [
        ("airline", "UA", "airline", "assigned", 0, None, [role]),
        ("airline", "probe", "airline", "sparse", 1, None, []),
        ("airline", "pump", "airline", "gapless", 2, 1, [role]),
        ("hub", "pump", "airline", "gapless", 2, None, []),
    ]
    table = invoke("senders", "airline").stdout
    assert "pump" in table
    assert "hub" not in table
    assert invoke("senders", "list", "hub", "--json").document["senders"][0]["store"] == "hub"


def test_binding_says_when_it_has_no_effect_yet_and_can_be_taken_back(world: World, role: str) -> None:
    """The store decides, not the file: another deployment's file may have switched it on."""
    first = invoke("senders", "bind", "airline", "UA", role)
    assert first.stdout.startswith(
        f"role {role} may send as UA of airline. The binding has no effect yet: set stores.airline.bind_senders"
    )
    again = invoke("senders", "bind", "airline", "UA", role, "--json").document
    assert again == {"store": "airline", "sender": "UA", "role": role, "changed": False, "is_enforced": False}
    world.query("airline", "select relaybox_internal.bind_senders(true)")
    enforced = invoke("senders", "bind", "airline", "UA", role, "--json").document
    assert enforced == {"store": "airline", "sender": "UA", "role": role, "changed": False, "is_enforced": True}
    assert invoke("senders", "bind", "airline", "UA", role).stdout == f"role {role} may send as UA of airline already\n"
    assert invoke("senders", "unbind", "airline", "UA", role).stdout == f"role {role} may no longer send as UA of airline\n"
    assert invoke("senders", "unbind", "airline", "UA", role).stdout == f"role {role} was not bound to UA of airline\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (
            ["declare", "airline", "pump", "assigned"],
            5,
            "assigned is not declared, it is what every undeclared sender is (RB021)",
        ),
        (["declare", "airline", "pump", "gaples"], 5, "there is no kind gaples (RB021). Known: gapless"),
        (["declare", "airlin", "pump", "gapless"], 2, 'there is no store "airlin". Did you mean airline?'),
        (["new-epoch", "airline", "pump"], 5, "sender pump is not declared in this store (RB022). Declare it"),
        (["bind", "airline", "UA", "no_such_role"], 2, "there is no role no_such_role in this cluster. Create it first"),
        (["bind", "airline", "U A", "postgres"], 5, "'U A' is no name of a sender (RB021)"),
        (["airlin"], 2, 'there is no store "airlin". Did you mean airline?'),
    ],
    ids=str,
)
def test_what_is_refused_says_why_and_what_to_do(world: World, arguments: list[str], exit_code: int, said: str) -> None:
    refused = invoke("senders", *arguments)
    assert (refused.exit_code, refused.stdout) == (exit_code, "")
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_store_that_does_not_answer_hides_no_other(world: World) -> None:
    invoke("senders", "declare", "airline", "pump", "gapless")
    world.query("hub", "drop schema relaybox, relaybox_internal cascade")
    listed = invoke("senders", "--json")
    assert (listed.exit_code, list(listed.document["errors"])) == (5, ["hub"])
    assert [one["sender"] for one in listed.document["senders"]] == ["pump"]
