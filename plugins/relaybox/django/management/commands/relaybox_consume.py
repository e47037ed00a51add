"""`manage.py relaybox_consume billing --handler shop.handlers.make_invoice`: a worker of one subscription."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils.module_loading import import_string

from relaybox import errors
from relaybox.consumer import Consumer, Message


class Command(BaseCommand):
    help = (
        "Consumes the messages of a subscription: calls the handler with each message, in the transaction that acknowledges it. "
        "SIGTERM ends the command after the current message."
    )

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("subscription", help="its name; it must exist in the store")
        parser.add_argument("--handler", required=True, help="a function of one message, as shop.handlers.make_invoice")
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="of settings.DATABASES; by default the default one")
        parser.add_argument("--payload-type", help="a pydantic model: message.body is the payload as this type")
        parser.add_argument("--worker", help="a name that is this worker's alone, the same after a restart")
        parser.add_argument("--max-count", type=int, default=100, help="messages fetched at once")
        parser.add_argument("--commit-every", type=int, default=1, help="messages per transaction")
        parser.add_argument(
            "--poll-seconds", type=float, default=1.0, help="how long to rest behind a pooler, where nothing is heard"
        )
        parser.add_argument("--until-empty", action="store_true", help="end when a fetch gives nothing")

    def handle(self, *given: Any, **options: Any) -> None:
        """Consumes until SIGTERM, or until nothing is there."""
        handler = _import(options["handler"], "--handler")
        payload_type = options["payload_type"] and _import(options["payload_type"], "--payload-type")
        with Consumer(
            connections[options["database"]],
            options["subscription"],
            worker=options["worker"],
            max_count=options["max_count"],
            commit_every=options["commit_every"],
            poll_seconds=options["poll_seconds"],
            until_empty=options["until_empty"],
            payload_type=payload_type or None,
        ) as consumer:

            def call(connection: Any, message: Message) -> Any:
                return handler(message)

            try:
                consumer.run(call)
            except errors.RelayboxError as error:
                raise CommandError(str(error)) from error
        self.stdout.write(
            f"subscription {consumer.subscription}: {consumer.acknowledged_count} acknowledged, {consumer.refused_count} refused, "
            f"{consumer.dead_letter_count} dead letters"
        )


def _import(path: str, option: str) -> Any:
    try:
        return import_string(path)
    except ImportError as error:
        raise CommandError(
            f"{option} {path}: {error}. Give the dotted path of a function, as shop.handlers.make_invoice."
        ) from error
