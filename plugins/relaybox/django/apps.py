"""The app, by which Django finds the models, the checks and the command."""

from __future__ import annotations

from django.apps import AppConfig


class RelayboxConfig(AppConfig):
    name = "relaybox.django"
    label = "relaybox"
    verbose_name = "Relaybox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from relaybox.django import checks

        checks.register_checks()
