"""Default privileges of the owner, also those of all schemas: no table that a store makes at run time may be read by more than its parent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.world import World

STORE = "hub"

_WIDER = """
select c.oid::regclass::text, a.privilege_type, case a.grantee when 0 then 'public' else a.grantee::regrole::text end
from pg_class c cross join aclexplode(c.relacl) a
where c.relnamespace = 'relaybox_internal'::regnamespace and c.relname ~ '^(outbox|log)_' and a.grantee <> c.relowner
    and (a.grantee = 0 or a.grantee::regrole::text ~ '^(relaybox_viewer|relaybox_producer|relaybox_consumer|looker_)')
order by 1, 2, 3
"""
"""Rights on segments and logs of roles that have none on their parents."""

_DETACHED = """
insert into relaybox_internal.detached_segment (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by,
    moved_by, attempt)
values (1, 0, 9999, 'log_1_s000000', 'detached', '/nowhere', 10, 0, '{}', 'test', 'test', 1)
"""

EVERYWHERE = "alter default privileges for role current_user"


@pytest.fixture
def looker(world: World) -> Iterator[str]:
    """A role of the user."""
    role = f"looker_{os.getpid()}"
    world.query(STORE, f"create role {role}")
    yield role
    world.query(STORE, f"drop owned by {role}; drop role {role}")


def test_tables_that_are_made_later_give_nobody_more_than_their_parents(world: World, looker: str) -> None:
    """Segments of the outbox, of a log, of the overflow; the log of a new hop; a table into which a segment is copied back."""
    for given in (
        f"{EVERYWHERE} grant select on tables to public",
        f"{EVERYWHERE} grant all on tables to relaybox_viewer",
        f"{EVERYWHERE} in schema relaybox_internal grant select on tables to relaybox_consumer, {looker}",
    ):
        world.query(STORE, given)
    before = _tables(world)
    world.query(STORE, "select relaybox_internal.ensure_outbox_segments(9), relaybox_internal.ensure_log_segments(1, 30000)")
    world.query(STORE, "select setval('relaybox.outbox_seq', 900000)")
    world.query(STORE, "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'into the overflow')")
    world.query(STORE, "select relaybox_internal.ensure_outbox_segments()")
    assert world.value(STORE, "select count(*) from relaybox_internal.outbox_overflow") == 0
    world.query(STORE, "select relaybox_internal.register_hop_in('other/1', 'elsewhere')")
    world.query(STORE, _DETACHED)
    assert world.value(STORE, "select staging from relaybox_internal.begin_attach(1, 'test')") == "log_1_s000000_attempt_2"
    made = _tables(world) - before
    assert {"outbox_overflow", "log_2", "log_2_s000000", "log_1_s000003", "log_1_s000000_attempt_2", "outbox_s000009"} <= {
        name for name, _ in made
    }
    assert world.query(STORE, _WIDER) == []
    world.send("a")
    world.transfer_all()
    assert world.payloads() == ["a"]


def _tables(world: World) -> set[tuple[str, int]]:
    return set(
        world.query(
            STORE,
            "select relname, oid from pg_class where relnamespace = 'relaybox_internal'::regnamespace and relkind in ('r', 'p')",
        )
    )


def test_doctor_names_rights_of_public_in_every_schema_and_init_leaves_them(world: World) -> None:
    """They are of tables of others too. Once they are taken, doctor is content."""
    owner = world.value(STORE, "select current_user")
    world.query(STORE, f"{EVERYWHERE} grant select, insert on tables to public")
    told = _doctor(3)
    assert [(one["severity"], one["what"].partition(".")[0]) for one in told] == [
        ("warning", f"PUBLIC has INSERT on new tables of {owner} in every schema"),
        ("warning", f"PUBLIC has SELECT on new tables of {owner} in every schema"),
    ]
    assert not initialise_store(world.routes.store(STORE), world.routes).changed
    for one in told:
        world.query(STORE, one["next_step"].partition(": ")[2])
    assert _doctor(0) == []


def _doctor(exit_code: int) -> list[Mapping[str, str]]:
    done = invoke("doctor", "--json", STORE)
    assert done.exit_code == exit_code, done.stdout
    (store,) = done.document["stores"]
    return [one for one in store["results"] if one["check"] == "rights" and one["severity"] != "ok"]
