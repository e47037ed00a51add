"""relaybox topics, and bind_topics in relaybox.yaml: from a store without grants to one that refuses, and back."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest
import yaml

from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.world import World

ODD = "Röle 'x"


@pytest.fixture
def role(world: World) -> Iterator[str]:
    """A consumer's login in the hub, and one with an odd name."""
    for name in ("app_reads", ODD):
        world.query("hub", f"create role \"{name}\" login password 'secret' in role relaybox_consumer")
    yield "app_reads"
    for name in ("app_reads", ODD):
        world.query("hub", f'drop role if exists "{name}"')


def bind_topics(world: World, *, asked: bool | None) -> str:
    """Writes it into relaybox.yaml, or leaves it out, and runs init; what init says about it."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["hub"] = {} if asked is None else {"bind_topics": asked}
    world.path.write_text(yaml.safe_dump(document))
    return initialise_store(world.routes.stores["hub"], world.routes).topic_binding


def read(role: str) -> list[str]:
    connection = psycopg2.connect(service="hub", user=role, password="secret")
    try:
        with connection.cursor() as cursor:
            cursor.execute("select payload from relaybox.inbox order by log_position")
            return [payload for (payload,) in cursor.fetchall()]
    finally:
        connection.close()


def test_the_key_in_the_file_switches_grants_on_and_off(world: World, role: str) -> None:
    """An upgrade keeps what was asked, and so does a file without the key; off again, grants wait for the next time."""
    world.send("a", "b")
    world.transfer()
    assert invoke("topics", "grant", "hub", "flights", role).exit_code == 0
    assert [read(role), read(ODD)] == [["a", "b"], ["a", "b"]]
    assert bind_topics(world, asked=True) == "switched on"
    assert [read(role), read(ODD)] == [["a", "b"], []]
    world.query("hub", "update relaybox_internal.installed_object set digest = 'older'")
    assert bind_topics(world, asked=True) == "unchanged"
    assert bind_topics(world, asked=None) == "unchanged"
    assert [read(role), read(ODD)] == [["a", "b"], []]
    assert bind_topics(world, asked=False) == "switched off"
    assert bind_topics(world, asked=None) == "unchanged"
    assert [read(role), read(ODD)] == [["a", "b"], ["a", "b"]]
    assert bind_topics(world, asked=True) == "switched on"
    assert [read(role), read(ODD)] == [["a", "b"], []]


def test_a_file_without_the_keys_opens_no_store(world: World) -> None:
    """The file of a second deployment, or of an earlier version: init leaves each switch on, and names it, until the file says false."""
    keys = ["bind_senders", "bind_subscriptions", "bind_topics", "require_approval"]
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["hub"] = dict.fromkeys(keys, True)
    world.path.write_text(yaml.safe_dump(document))
    assert invoke("init", "hub", "--json").document["stores"][0]["switches_kept_on"] == []
    document["stores"]["hub"] = {"bind_topics": None}
    world.path.write_text(yaml.safe_dump(document))
    assert invoke("init", "--dry-run", "hub").exit_code == 0
    (kept,) = invoke("init", "hub", "--json").document["stores"]
    assert (kept["switches_kept_on"], kept["changed"]) == (keys, False)
    said = invoke("init", "hub").stdout
    for key in keys:
        assert f"hub: {key} stays on: relaybox.yaml does not have it. To switch it off, write {key}: false" in " ".join(
            said.split()
        )
    document["stores"]["hub"] = dict.fromkeys(keys, False)
    world.path.write_text(yaml.safe_dump(document))
    (off,) = invoke("init", "hub", "--json").document["stores"]
    assert (off["switches_kept_on"], off["topic_binding"], off["approvals"]) == ([], "switched off", "switched off")


def test_init_says_what_it_switches(world: World) -> None:
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["hub"] = {"bind_topics": True}
    world.path.write_text(yaml.safe_dump(document))
    assert "grants of topics to roles: switched on" in invoke("init", "--dry-run", "hub").stdout
    assert not world.value("hub", "select bind_topics from relaybox_internal.store")
    assert invoke("init", "hub", "--json").document["stores"][0]["topic_binding"] == "switched on"


def test_a_grant_says_when_it_has_no_effect_and_which_topics_are_unknown(world: World, role: str) -> None:
    first = invoke("topics", "grant", "hub", "flights", "flihgts", role)
    assert first.stdout.replace("\n", " ").startswith(
        f"role {role} may read topics flights, flihgts of hub. No stream of hub has carried flihgts yet. "
        "The grant has no effect yet: set stores.hub.bind_topics"
    )
    bind_topics(world, asked=True)
    assert invoke("topics", "grant", "hub", "flights", role).stdout == f"role {role} may read topic flights of hub already\n"
    again = invoke("topics", "grant", "hub", "flights", "crew", role, "--json").document
    assert again == {
        "store": "hub",
        "role": role,
        "topics": ["flights", "crew"],
        "changed": ["crew"],
        "unknown": ["crew"],
        "is_enforced": True,
    }


def test_the_command_of_an_error_is_the_one_that_helps(world: World, role: str) -> None:
    """Taken from the hint as a shell takes it, for a role with an odd name."""
    import shlex

    world.send("a")
    world.transfer()
    bind_topics(world, asked=True)
    connection = psycopg2.connect(service="hub", user=ODD, password="secret")
    try:
        with connection.cursor() as cursor:
            with pytest.raises(psycopg2.Error) as refused:
                cursor.execute("select * from relaybox.read_stream('flights')")
            connection.rollback()
            command = str(refused.value.diag.message_hint).rpartition("runs: relaybox ")[2]
            assert invoke(*shlex.split(command)).exit_code == 0
            cursor.execute("select payload from relaybox.read_stream('flights')")
            assert cursor.fetchall() == [("a",)]
    finally:
        connection.close()
    assert role


def test_a_revoke_says_what_the_role_still_reads(world: World, role: str) -> None:
    bind_topics(world, asked=True)
    world.query("hub", f"create role team_reads; grant team_reads to {role}")
    try:
        for grantee, topic in ((role, "flights"), ("team_reads", "flights"), (role, "*")):
            assert invoke("topics", "grant", "hub", topic, grantee).exit_code == 0
        both = invoke("topics", "revoke", "hub", "flights", "*", role, "--json").document
        assert (both["changed"], both["readable"]) == (["flights", "*"], ["flights"])
        text = invoke("topics", "revoke", "hub", "flights", role).stdout.replace("\n", " ")
        assert text.startswith(
            f"topic flights of hub had not been granted to role {role}. The role still reads flights: by a grant"
        )
        done = invoke("topics", "revoke", "hub", "flights", "team_reads").stdout
        assert done == "topic flights of hub revoked from role team_reads\n"
        assert invoke("topics", "revoke", "hub", "flights", role, "--json").document["readable"] == []
    finally:
        world.query("hub", "drop role team_reads")


def test_the_list_shows_each_grant_and_those_of_roles_that_are_gone(world: World, role: str) -> None:
    assert invoke("topics", "hub").stdout == "No topic is granted to a role.\n"
    invoke("topics", "grant", "hub", "flights", "later", role)
    invoke("topics", "grant", "hub", "*", ODD)
    world.query("hub", f'drop role "{ODD}"')
    shown = invoke("topics", "list", "hub", "--json").document
    assert shown["errors"] == {}
    facts = ("topic", "role", "role_exists", "topic_exists", "is_enforced")
    assert [tuple(one[fact] for fact in facts) for one in shown["grants"]] == [
        ("*", ODD, False, True, False),
        ("flights", role, True, True, False),
        ("later", role, True, False, False),
    ]
    text = " ".join(invoke("topics").stdout.split())
    assert "there is no such role" in text
    assert invoke("topics", "revoke", "hub", "*", ODD).exit_code == 0


def test_a_wrong_name_grants_nothing(world: World, role: str) -> None:
    """No topic of the command is granted if one has a name that no topic can have."""
    refused = invoke("topics", "grant", "hub", "flights", "No Topic", role)
    assert refused.exit_code == 5
    assert "RB036" in refused.stderr
    assert invoke("topics", "grant", "hub", "flights", "no_such_role").exit_code == 5
    assert invoke("topics", "grant", "hub", role).exit_code == 2
    assert world.query("hub", "select from relaybox_internal.topic_role") == []
