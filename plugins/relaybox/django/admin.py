"""The admin shows what the store has, and changes nothing."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import OperationalError, connections

from relaybox.django.models import DeadLetter, Outbox, Subscription

_MAY_READ = """
select has_schema_privilege(n.oid, 'usage') and has_column_privilege(c.oid, %s, 'select')
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""


class ReadOnlyAdmin(admin.ModelAdmin):
    actions = None

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        """Also the login of the database must have the right: a producer reads no dead letters, a consumer no outbox."""
        return super().has_view_permission(request, obj) and _may_read(super().get_queryset(request))


@admin.register(Outbox)
class OutboxAdmin(ReadOnlyAdmin):
    """Messages by number and id; with a login that may read them (relaybox_viewer) by topic and sender too. Never payloads."""

    ordering = ("-seq",)
    list_display_links = None

    def get_list_display(self, request: Any) -> tuple[str, ...]:
        return _readable_columns(self.get_queryset(request).db)

    def get_queryset(self, request: Any) -> Any:
        messages = super().get_queryset(request)
        return messages.only(*_readable_columns(messages.db))


@admin.register(Subscription)
class SubscriptionAdmin(ReadOnlyAdmin):
    list_display = ("subscription", "stream", "done_stream_position", "stream_positions_behind", "dead_letters", "moved_at")
    ordering = ("subscription",)


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = (
        "dead_letter_id",
        "state",
        "subscription",
        "stream_position",
        "reason",
        "detail",
        "topic",
        "sender",
        "last_at",
    )
    list_filter = ("state", "reason")
    ordering = ("-dead_letter_id",)


def _may_read(rows: Any) -> bool:
    """Whether the login of their database may read these rows; it may also be no store. Reads the catalog alone."""
    connection = connections[rows.db]
    if connection.vendor != "postgresql":
        return False
    schema, _, relation = rows.model._meta.db_table.replace('"', "").partition(".")  # noqa: SLF001  # public API of Django
    try:
        with connection.cursor() as cursor:
            cursor.execute(_MAY_READ, [rows.model._meta.pk.column, schema, relation])  # noqa: SLF001
            found = cursor.fetchone()
    except OperationalError:
        return True  # the page of the model says that the database can't be reached; the other pages go on
    return found is not None and found[0]


def _readable_columns(alias: str) -> tuple[str, ...]:
    """Which columns of the outbox the login of a database may read."""
    with connections[alias].cursor() as cursor:
        cursor.execute("select has_column_privilege('relaybox.outbox', 'topic', 'select')")
        (may_read,) = cursor.fetchone()
    return ("seq", "message_id", "topic", "sender") if may_read else ("seq", "message_id")
