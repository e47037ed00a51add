"""Relaybox in a Django project: `INSTALLED_APPS = [..., "relaybox.django"]`.

`Outbox.put()` of relaybox.django.models sends within transaction.atomic; `manage.py relaybox_consume SUBSCRIPTION` consumes; system checks
say what the databases lack; the admin shows messages, subscriptions and dead letters, read-only. The app has no migrations: `relaybox
init` makes the tables.
"""
