"""A store that does not answer does not end a command that can do without it: the command warns of it."""

from __future__ import annotations

import pytest

from relaybox.routes import load_routes
from tests.support.cli import Run, invoke
from tests.support.services import add_route, break_service
from tests.support.world import World, routes_file


@pytest.fixture
def dead_analytics(world: World) -> World:
    """Messages were moved to hub and on, a subscription reads them there; then analytics has gone."""
    world.send("a", "b")
    world.transfer_all()
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    break_service("analytics", port="1")
    return world


def warned(answer: Run, *said: str) -> None:
    """It did its work; what did not answer is told on stderr."""
    assert answer.exit_code == 0, answer.stderr
    assert "warning: store analytics: no connection" in answer.stderr
    for words in said:
        assert words in answer.stderr


def test_where_needs_no_store_at_which_other_routes_begin(dead_analytics: World) -> None:
    """The message is on its own stores; an unknown message may be on the dead one."""
    world = dead_analytics
    routes_file(world.path.parent, route={"path": ["airline", "hub"]})
    add_route(world.path, "back", topics=["back"], path=["analytics", "hub"])
    message_id = str(world.value("airline", "select message_id::text from relaybox.outbox order by seq limit 1"))
    found = invoke("where", message_id, "--json")
    warned(found, "Whether analytics has a message of this id too is unknown.")
    assert [trace["route"] for trace in found.document["traces"]] == ["flights"]
    assert found.document["errors"]["analytics"].startswith("store analytics: no connection")
    warned(invoke("where", message_id))
    assert invoke("where", "01a1fc57-61bd-7659-92d2-53639fb0a769", "--json").exit_code == 4


def test_a_subscription_is_found_beside_a_dead_store(dead_analytics: World) -> None:
    """The store that has it is used. Of a name that nobody has, the dead store may have it: a retry may help."""
    unknown = "analytics may also have a subscription billing. The command uses the one of hub."
    told = invoke("replay", "billing", "--from", "earliest", "--json")
    warned(told, unknown)
    assert told.document["store"] == "hub"
    warned(invoke("dead-letters", "redrive", "billing", "--reason", "test"), unknown)
    absent = invoke("replay", "absent", "--from", "earliest", "--json")
    assert (absent.exit_code, absent.document["error"]["kind"]) == (4, "StoreUnreachable")


def test_confirm_settles_the_hops_whose_stores_answer(world: World) -> None:
    """Policy received: the first hop has nothing to ask of the last store."""
    world.change_route(policy="received")
    world.send("a", "b")
    world.transfer()
    break_service("analytics", port="1")
    confirmed = invoke("confirm", "flights", "--json")
    assert [(hop["hop"], hop["through_position"]) for hop in confirmed.document["hops"]] == [("flights/1", 2)]
    assert list(confirmed.document["errors"]) == ["flights/2"]
    assert confirmed.exit_code == 4
    assert "error: store analytics: no connection" in confirmed.stderr


def test_retire_lists_and_retires_beside_a_dead_store(dead_analytics: World) -> None:
    """A hop by its name needs only the store that it leaves; a list, and a name that nobody has, may need the dead one."""
    world = dead_analytics
    routes_file(world.path.parent, route={"path": ["airline", "hub"]})
    assert [hop.name for hop in load_routes(world.path).hops] == ["flights/1"]
    listed = invoke("retire", "--json")
    assert [hop["hop"] for hop in listed.document["hops"]] == ["flights/2"]
    assert (listed.exit_code, list(listed.document["errors"])) == (4, ["analytics"])
    assert invoke("retire", "absent").exit_code == 4
    assert "run: relaybox init hub" in invoke("retire", "flights/2", "--reason", "shorter").stderr
    assert invoke("init", "hub").exit_code == 0
    done = invoke("retire", "flights/2", "--reason", "shorter", "--json")
    warned(done, "Hop flights/2 does not leave analytics.")
    assert done.document["hops"][0]["retired_reason"] == "shorter"
