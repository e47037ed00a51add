"""`relaybox init` by an owner who may not make schemas in its database: it says which statement a superuser runs, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import write_service_file
from relaybox.stores.init.one_store import StoreInitialised, initialise_store
from tests.support.world import World
from tests.upgrades.pictures import restore

pytestmark = pytest.mark.thorough

Init = Callable[[], StoreInitialised]
OWNER = "picture_owner"
GIVE = """
do $$
declare
    one record;
begin
    alter schema relaybox owner to picture_owner;
    for one in
        select format('alter table %%s owner to picture_owner', c.oid::regclass) as statement from pg_class c
        where c.relnamespace = 'relaybox'::regnamespace and c.relkind in ('r', 'p', 'v')
        union all
        select format('alter routine %%s owner to picture_owner', p.oid::regprocedure) from pg_proc p
        where p.pronamespace = 'relaybox'::regnamespace
        union all
        select format('alter sequence %%s owner to picture_owner', c.oid::regclass) from pg_class c
        where c.oid = 'relaybox.outbox_seq'::regclass
    loop
        execute one.statement;
    end loop;
end
$$
"""


@pytest.fixture
def superuser(databases: Mapping[str, Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The stores of 892d821; service `hub` logs in as the owner of everything in schema relaybox, who owns no database."""
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    world = restore("892d821", tmp_path)
    services = {f"administer_{store}": parameters for store, parameters in databases.items()}
    write_service_file(
        tmp_path / "services.conf", {**databases, **services, "hub": {**databases["hub"], "user": OWNER, "password": "secret"}}
    )
    world.query("administer_hub", f"create role {OWNER} login password 'secret' createrole")
    world.query("administer_hub", GIVE)
    yield world
    world.query("administer_hub", f"drop owned by {OWNER} cascade; drop role {OWNER}")


@pytest.fixture
def init(superuser: World) -> Init:
    return lambda: initialise_store(superuser.routes.store("hub"), superuser.routes)


def test_the_statement_that_a_superuser_must_run_is_named(superuser: World, init: Init) -> None:
    """Without it the store is as before; after it init succeeds, and again."""
    with pytest.raises(errors.StoreUnusable, match=f"login {OWNER} may not make schema relaybox_internal in database") as refused:
        init()
    assert superuser.value("administer_hub", "select max(number) from relaybox.migration") == 18
    statement = f"create schema relaybox_internal authorization {OWNER}"
    assert f"As a superuser: {statement}; then run: relaybox init" in str(refused.value)
    superuser.query("administer_hub", "create schema relaybox_internal")
    with pytest.raises(errors.StoreUnusable, match="schema relaybox_internal belongs to relaybox, which does not own"):
        init()
    superuser.query("administer_hub", "drop schema relaybox_internal")
    superuser.query("administer_hub", statement)
    assert init().migrations
    assert not init().changed


def test_an_owner_of_both_schemas_makes_a_new_store(superuser: World, init: Init) -> None:
    """A superuser made them beforehand; the owner may make no other schema."""
    superuser.query("administer_hub", "drop schema relaybox cascade")
    with pytest.raises(errors.StoreUnusable, match=f"create schema relaybox authorization {OWNER}"):
        init()
    for schema in ("relaybox", "relaybox_internal"):
        superuser.query("administer_hub", f"create schema {schema} authorization {OWNER}")
    assert init().migrations
    assert not init().changed


def test_a_schema_that_another_login_made_is_never_used(superuser: World) -> None:
    """With it that login could run code with the rights of the store's owner: also of a superuser, who has every right on it."""
    store = superuser.routes.store("airline")
    superuser.query("airline", "create role stranger; create schema relaybox_internal authorization stranger")
    with pytest.raises(errors.StoreUnusable, match="schema relaybox_internal belongs to stranger, which does not own the store"):
        initialise_store(store, superuser.routes)
    assert superuser.value("airline", "select max(number) from relaybox.migration") == 18
    superuser.query("airline", "drop schema relaybox_internal; drop role stranger")
    assert initialise_store(store, superuser.routes).migrations
    owners = "select count(distinct nspowner) from pg_namespace where nspname in ('relaybox', 'relaybox_internal')"
    assert superuser.value("airline", owners) == 1
