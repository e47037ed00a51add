"""The admin shows what the store has, and changes nothing."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db import connections

from relaybox.django.models import DeadLetter, Outbox, Subscription


class ReadOnlyAdmin(admin.ModelAdmin):
    actions = None

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


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


def _readable_columns(alias: str) -> tuple[str, ...]:
    """Which columns of the outbox the login of a database may read."""
    with connections[alias].cursor() as cursor:
        cursor.execute("select has_column_privilege('relaybox.outbox', 'topic', 'select')")
        (may_read,) = cursor.fetchone()
    return ("seq", "message_id", "topic", "sender") if may_read else ("seq", "message_id")
