"""What the store has, as models that Django does not manage: the outbox to send, the views of consumers to read."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connections, models, router, transaction

from relaybox import outbox as sending
from relaybox.message_times import MessageTime


def new_message_id() -> UUID:
    """A UUID of version 7, whose first bits are the time: ids of the same time are near each other in the index of the outbox."""
    bits = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)


class Outbox(models.Model):
    """One message. Send with Outbox.put(); Outbox.objects.create(topic=..., sender=..., payload=...) says the same.

    Rows never change, and an application may read back only `seq` and `message_id`.
    """

    seq = models.BigAutoField(primary_key=True)
    message_id = models.UUIDField(default=new_message_id, editable=False)
    topic = models.TextField()
    sender = models.TextField()
    epoch = models.IntegerField(default=1)
    index = models.BigIntegerField(null=True, blank=True)
    key = models.TextField(null=True, blank=True)
    headers = models.JSONField(null=True, blank=True)
    payload = models.TextField(null=True, blank=True)
    payload_bytes = models.BinaryField(null=True, blank=True)
    clock = models.JSONField(null=True, blank=True)

    class Meta:
        managed = False
        db_table = '"relaybox"."outbox"'
        verbose_name = "message of the outbox"
        verbose_name_plural = "outbox"

    def __str__(self) -> str:
        return f"message {self.message_id}"

    @classmethod
    def put(
        cls,
        topic: str,
        sender: str,
        payload: sending.Payload,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: UUID | None = None,
        index: int | None = None,
        epoch: int | None = None,
        clock: sending.Clock | None = None,
        deliver_after: MessageTime | None = None,
        expires_at: MessageTime | None = None,
        using: str | None = None,
    ) -> UUID:
        """relaybox.outbox.put within transaction.atomic, whose commit decides whether the message exists.

        Args:
            topic: as all but the last, an argument of relaybox.outbox.put.
            sender: see there.
            payload: see there.
            key: see there.
            headers: see there.
            message_id: see there.
            index: see there.
            epoch: see there.
            clock: see there.
            deliver_after: see there.
            expires_at: see there.
            using: the database; by default the one that the router gives for writing this model.

        Raises:
            TransactionManagementError: no transaction.atomic is open on the database: message and work would be two transactions.
            ValueError, DatabaseError: as relaybox.outbox.put.
        """
        connection = cls._atomic_connection(using)
        return sending.put(
            connection,
            topic,
            sender,
            payload,
            key=key,
            headers=headers,
            message_id=message_id,
            index=index,
            epoch=epoch,
            clock=clock,
            deliver_after=deliver_after,
            expires_at=expires_at,
        )

    @classmethod
    def put_once(
        cls, sender: str, put_key: str, drafts: Sequence[sending.Draft], *, numbered: bool = False, using: str | None = None
    ) -> bool:
        """relaybox.outbox.put_once within transaction.atomic; raises as put()."""
        return sending.put_once(cls._atomic_connection(using), sender, put_key, drafts, numbered=numbered)

    @classmethod
    def _atomic_connection(cls, using: str | None) -> Any:
        alias = using or router.db_for_write(cls)
        connection = connections[alias]
        if not connection.in_atomic_block:
            raise transaction.TransactionManagementError(
                f"Outbox.put() outside of transaction.atomic on the database {alias}: the message would be committed alone, whatever "
                f"happens to your work. Nothing was sent. Write: with transaction.atomic(using={alias!r}): ..."
            )
        return connection


class Subscription(models.Model):
    """A row of relaybox.subscriptions: read-only."""

    subscription = models.TextField(primary_key=True)
    stream = models.TextField()
    topic = models.TextField(null=True)
    lanes = models.IntegerField()
    done_stream_position = models.BigIntegerField()
    last_stream_position = models.BigIntegerField()
    stream_positions_behind = models.BigIntegerField()
    dead_letters = models.BigIntegerField()
    moved_at = models.DateTimeField(null=True)
    subscribed_at = models.DateTimeField()
    subscribed_by = models.TextField()

    class Meta:
        managed = False
        db_table = '"relaybox"."subscriptions"'

    def __str__(self) -> str:
        return str(self.subscription)


class DeadLetter(models.Model):
    """A row of relaybox.dead_letters: read-only."""

    dead_letter_id = models.BigIntegerField(primary_key=True)
    state = models.TextField()
    stream = models.TextField()
    subscription = models.TextField(null=True)
    stream_position = models.BigIntegerField(null=True)
    reason = models.TextField()
    detail = models.TextField(null=True)
    attempts = models.IntegerField(null=True)
    first_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True)
    message_id = models.UUIDField(null=True)
    topic = models.TextField(null=True)
    sender = models.TextField(null=True)
    key = models.TextField(null=True)
    payload = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = '"relaybox"."dead_letters"'

    def __str__(self) -> str:
        return f"dead letter {self.dead_letter_id}"
