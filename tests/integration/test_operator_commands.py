"""relaybox operators: bind, unbind and list the operators of streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.subscription_roles import bind_subscriptions
from tests.support.cli import invoke
from tests.support.world import World

ODD = "Röle 'x"


@pytest.fixture
def role(world: World) -> Iterator[str]:
    """An operator's login in the hub, and one with an odd name that is no operator."""
    world.query("hub", "create role ops_flights login in role relaybox_operator, relaybox_consumer")
    world.query("hub", f'create role "{ODD}" login in role relaybox_consumer')
    yield "ops_flights"
    for name in ("ops_flights", ODD):
        world.query("hub", f'drop role if exists "{name}"')


def test_a_binding_says_what_it_still_needs_to_have_an_effect(world: World, role: str) -> None:
    first = " ".join(invoke("operators", "bind", "hub", "crew", ODD).stdout.split())
    assert first == (
        f"role {ODD} is an operator of stream crew of hub. hub has no stream crew yet. The binding has no effect yet: "
        "set stores.hub.bind_subscriptions to true and run relaybox init. The role does not inherit relaybox_operator: the "
        f'binding has an effect only for members that do so. Run: grant relaybox_operator to "{ODD}";'
    )
    bind_subscriptions(world, asked=True)
    assert invoke("operators", "bind", "hub", "flights", role).stdout == f"role {role} is an operator of stream flights of hub\n"
    again = invoke("operators", "bind", "hub", "flights", role, "--json").document
    assert again == {
        "store": "hub",
        "stream": "flights",
        "role": role,
        "changed": False,
        "role_is_operator": True,
        "stream_exists": True,
        "is_enforced": True,
    }


def test_the_list_shows_each_binding_and_those_of_roles_and_streams_that_are_gone(world: World, role: str) -> None:
    assert invoke("operators", "hub").stdout == "No role is an operator of a stream.\n"
    for stream, name in (("flights", role), ("flights", ODD), ("gone", role)):
        assert invoke("operators", "bind", "hub", stream, name).exit_code == 0
    world.query("hub", f'drop role "{ODD}"')
    shown = invoke("operators", "list", "hub", "--json").document
    assert shown["errors"] == {}
    facts = ("stream", "role", "role_exists", "role_is_operator", "stream_exists", "is_enforced")
    assert [tuple(one[fact] for fact in facts) for one in shown["operators"]] == [
        ("flights", ODD, False, False, True, False),
        ("flights", role, True, True, True, False),
        ("gone", role, True, True, False, False),
    ]
    text = " ".join(invoke("operators").stdout.split())
    assert "there is no such role" in text
    world.query("hub", f"revoke relaybox_operator from {role}; update relaybox_internal.store set bind_subscriptions = true")
    text = " ".join(invoke("operators").stdout.split())
    assert "in effect" not in text
    assert f'the role is no member of relaybox_operator. Run: grant relaybox_operator to "{role}";' in text
    assert (
        invoke("operators", "unbind", "hub", "flights", ODD).stdout
        == f"role {ODD} is no longer an operator of stream flights of hub\n"
    )
    assert invoke("operators", "unbind", "hub", "gone", role, "--json").document["changed"] is True
    assert invoke("operators", "unbind", "hub", "gone", role).stdout == f"role {role} was not an operator of stream gone of hub\n"


def test_a_wrong_name_binds_nothing(world: World, role: str) -> None:
    for stream, name in (("No Stream", role), ("1st", role), ("x" * 31, role), ("flights", "no_such_role")):
        refused = invoke("operators", "bind", "hub", stream, name)
        assert refused.exit_code == 5
        assert "RB036" in refused.stderr
    assert world.query("hub", "select from relaybox_internal.stream_role") == []
