"""Relaybox in a Django project: sending within atomic, the command that consumes, the checks, the read-only admin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.sites import AdminSite
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connections, transaction
from django.test import RequestFactory

from relaybox.consumer import Message
from relaybox.django.apps import RelayboxConfig
from relaybox.django.checks import check_databases, check_settings
from relaybox.django.management.commands.relaybox_consume import Command
from relaybox.django.models import DeadLetter, Outbox, Subscription
from tests.support.libraries import django_database, parameters
from tests.support.patience import patience
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

ROOT = Path(__file__).parents[2]
handled: list[str] = []


def handle(message: Message) -> None:
    """The handler of the command: writes with Django's connection of the consumer's transaction."""
    if message.payload == "m2":
        raise ValueError("not this one")
    handled.append(str(message.payload))


@pytest.fixture
def django_shop(world: World) -> Iterator[World]:
    """Django's database `airline` with the rights of an application, and `hub` with those of a consumer."""
    for store, role in (("airline", "relaybox_producer"), (STORE, "relaybox_consumer")):
        login = f"django_of_a_test_{store}"
        world.query(store, f"create role {login} login password 'p' in role {role}")
        django_database(store, USER=login, PASSWORD="p")
    deliver(world, 4)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    handled.clear()
    yield world
    for store in ("airline", STORE):
        connections[store].close()
        world.query(store, f"drop role django_of_a_test_{store}")


# --- sending --------------------------------------------------------------------------------------------------------------


def test_g1_put_within_atomic_shares_its_fate(django_shop: World) -> None:
    with transaction.atomic(using="airline"):
        made = Outbox.put("flights", "UA", {"n": 1}, key="k", using="airline")
    with pytest.raises(ValueError, match="no"), transaction.atomic(using="airline"):
        Outbox.put("flights", "UA", "rolled back", using="airline")
        raise ValueError("no")
    with transaction.atomic(using="airline"):
        with pytest.raises(ValueError, match="inner"), transaction.atomic(using="airline"):
            Outbox.put("flights", "UA", "taken back", using="airline")
            raise ValueError("inner")
        Outbox.put("flights", "UA", "kept", using="airline")
    rows = django_shop.query("airline", "select message_id::text, payload, key from relaybox.outbox order by seq")
    assert rows[0] == (str(made), '{"n": 1}', "k")
    assert [row[1] for row in rows] == ['{"n": 1}', "kept"]


def test_put_outside_of_atomic_is_refused_and_sends_nothing(django_shop: World) -> None:
    for send in (
        lambda: Outbox.put("flights", "UA", "x", using="airline"),
        lambda: Outbox.put_once("UA", "key", [], using="airline"),
    ):
        with pytest.raises(
            transaction.TransactionManagementError, match=r"Nothing was sent\. Write: with transaction\.atomic\(using='airline'\)"
        ):
            send()
    assert django_shop.sent() == []


def test_the_model_of_the_outbox_can_be_created(django_shop: World) -> None:
    """As a newcomer does it: what is not given is left to the store, and the key comes back."""
    made = Outbox.objects.using("airline").create(topic="flights", sender="UA", payload="x")
    assert (made.seq, made.message_id.version) == (1, 7)
    rows = django_shop.query("airline", "select message_id::text, epoch, headers, payload from relaybox.outbox")
    assert rows == [(str(made.message_id), 1, None, "x")]
    made.payload = "changed"
    with pytest.raises(DatabaseError, match="permission denied"):
        made.save(using="airline")
    with pytest.raises(DatabaseError, match="permission denied"):
        made.delete(using="airline")


# --- consuming ------------------------------------------------------------------------------------------------------------


def test_the_command_consumes_until_nothing_is_there(
    django_shop: World, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A dead letter is a warning, which Python shows without a configuration of logging."""
    call_command("relaybox_consume", "billing", handler=f"{__name__}.handle", database=STORE, until_empty=True)
    assert handled == ["m1", "m3", "m4"]
    assert capsys.readouterr().out == "subscription billing: 3 acknowledged, 1 refused, 1 dead letters\n"
    assert [letter.detail for letter in DeadLetter.objects.using(STORE)] == ["ValueError: not this one"]
    (told,) = (one for one in caplog.records if one.message.startswith("message_refused "))
    assert (told.levelname, "dead_letter=True" in told.message) == ("WARNING", True)


def test_the_command_says_what_is_wrong(django_shop: World) -> None:
    with pytest.raises(CommandError, match=r"--handler no\.such\.handler: .*Give the dotted path"):
        call_command("relaybox_consume", "billing", handler="no.such.handler", database=STORE)
    with pytest.raises(CommandError, match=r"there is no subscription other"):
        call_command(Command(), "other", handler=f"{__name__}.handle", database=STORE, until_empty=True)


PROGRAM = """
import sys
from django.conf import settings
database = dict(zip(("HOST", "PORT", "USER", "PASSWORD", "NAME"), sys.argv[1:6]), ENGINE="django.db.backends.postgresql")
settings.configure(INSTALLED_APPS=["relaybox.django"], DATABASES={"default": database})
import django
django.setup()
from django.core.management import call_command
from django.db import connection
sys.modules["shop"] = sys.modules["__main__"]
def handle(message):
    print(message.payload, flush=True)
call_command("relaybox_consume", "billing", handler="shop.handle", poll_seconds=0.05)
"""


def test_sigterm_ends_the_command_after_its_message(django_shop: World) -> None:
    at = parameters(STORE)
    worker = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *(at[name] for name in ("host", "port", "user", "password", "dbname"))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")},
    )
    try:
        wait_until(
            lambda: django_shop.value(STORE, "select done_stream_position from relaybox.subscriptions") == 4,
            "the command has consumed",
        )
        worker.send_signal(signal.SIGTERM)
        out, _ = worker.communicate(timeout=patience(30))
    finally:
        worker.kill()
    assert worker.returncode == 0
    assert out.splitlines() == ["m1", "m2", "m3", "m4", "subscription billing: 4 acknowledged, 0 refused, 0 dead letters"]


# --- checks and admin -----------------------------------------------------------------------------------------------------


def test_the_checks_name_what_a_database_lacks(django_shop: World) -> None:
    assert isinstance(apps.get_app_config("relaybox"), RelayboxConfig)
    assert check_settings() == []
    assert check_databases(databases=["airline", STORE]) == []
    at = parameters("airline")
    django_shop.query("airline", "create role stranger_of_a_test login password 'p'")
    django_shop.query("airline", f"grant connect on database {at['dbname']} to stranger_of_a_test")
    django_shop.query("airline", "grant usage on schema relaybox to stranger_of_a_test")
    django_database("airline", USER="stranger_of_a_test", PASSWORD="p")
    (found,) = check_databases(databases=["airline"])
    assert found.id == "relaybox.E002"
    assert found.hint == "Run as its owner: grant relaybox_producer, relaybox_consumer to stranger_of_a_test;"
    django_shop.query("airline", "revoke usage on schema relaybox from stranger_of_a_test")
    (found,) = check_databases(databases=["airline"])
    assert found.id == "relaybox.E002"
    connections["airline"].close()
    django_shop.query("airline", "alter role stranger_of_a_test nologin")
    (found,) = check_databases(databases=["airline"])
    assert found.id == "relaybox.E003"
    assert "can't be reached as stranger_of_a_test" in found.msg
    assert "grant relaybox_producer, relaybox_consumer to stranger_of_a_test;" in found.hint
    django_shop.query("airline", "alter role stranger_of_a_test login")
    connections["airline"].close()
    django_database("airline", NAME="postgres")
    (found,) = check_databases(databases=["airline"])
    assert found.id == "relaybox.W001"
    connections["airline"].close()
    django_shop.query("airline", "drop owned by stranger_of_a_test; drop role stranger_of_a_test")


@pytest.mark.parametrize("model", [Outbox, Subscription, DeadLetter], ids=lambda model: model.__name__)
def test_the_admin_lists_and_changes_nothing(django_shop: World, model: Any) -> None:
    """With the rights of the application: a producer sees numbers and ids, no content."""
    store = "airline" if model is Outbox else STORE
    django_shop.send("x")
    call_command("relaybox_consume", "billing", handler=f"{__name__}.handle", database=STORE, until_empty=True)
    from relaybox.django.admin import ReadOnlyAdmin  # as Django's autodiscovery does it

    shown = admin.site._registry[model]  # noqa: SLF001
    assert isinstance(shown, ReadOnlyAdmin)
    request = RequestFactory().get("/")
    assert not shown.has_add_permission(request)
    assert not shown.has_change_permission(request)
    assert not shown.has_delete_permission(request)
    shown = type(shown)(model, AdminSite())
    model._default_manager._db = store  # noqa: SLF001
    try:
        rows = list(shown.get_queryset(request))
        columns = shown.get_list_display(request)
        assert len(rows) == 1
        assert all(getattr(rows[0], column, None) is not None for column in columns if column != "moved_at")
    finally:
        model._default_manager._db = None  # noqa: SLF001
    assert columns == ("seq", "message_id") or model is not Outbox


def test_the_admin_shows_no_page_that_the_login_may_not_read(django_shop: World) -> None:
    """A producer has the outbox, a consumer what it reads; a database that is no store has nothing."""
    from relaybox.django.admin import ReadOnlyAdmin

    request = RequestFactory().get("/")
    request.user = User(is_active=True, is_superuser=True)

    def shown(store: str) -> set[Any]:
        found = set()
        for model in (Outbox, Subscription, DeadLetter):
            page = admin.site._registry[model]  # noqa: SLF001
            assert isinstance(page, ReadOnlyAdmin)
            model._default_manager._db = store  # noqa: SLF001
            try:
                if page.has_view_permission(request):
                    found.add(model)
            finally:
                model._default_manager._db = None  # noqa: SLF001
        return found

    assert shown("airline") == {Outbox}
    assert shown(STORE) == {Subscription, DeadLetter}
    django_database("airline", NAME="postgres")
    assert shown("airline") == set()
    connections["airline"].close()
