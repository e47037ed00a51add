"""An application with Django, in one file: `send ORDER` writes an order and its message, `relaybox_consume` makes invoices.

pip install 'relaybox[django,psycopg]'; SHOP_URL and BILLING_URL say where the two stores are.

python shop_django.py send 7
python shop_django.py relaybox_consume invoices --database billing --handler shop_django.make_invoice
"""

import json
import os
import sys

import django
from django.conf import settings
from django.db import models, transaction
from psycopg.conninfo import conninfo_to_dict


def read_database(url: str) -> dict[str, object]:
    """What DATABASES says of one."""
    at = conninfo_to_dict(url)
    names = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    return {"ENGINE": "django.db.backends.postgresql", **{name: at.get(key, "") for name, key in names.items()}}


settings.configure(
    INSTALLED_APPS=["relaybox.django"],
    DATABASES={"default": read_database(os.environ["SHOP_URL"]), "billing": read_database(os.environ["BILLING_URL"])},
)
django.setup()

from relaybox.consumer import Message  # noqa: E402  # models need the settings
from relaybox.django.models import Outbox  # noqa: E402


class Order(models.Model):
    """In the database of the shop."""

    class Meta:
        """Of one file, which is no app."""

        app_label, db_table = "shop", "shop_order"


class Invoice(models.Model):
    """In the database of billing."""

    order_id = models.IntegerField(primary_key=True)

    class Meta:
        """Of one file, which is no app."""

        app_label, db_table = "shop", "invoice"


def send(order: int) -> None:
    """Order and message are one transaction; put() outside of atomic is an error."""
    with transaction.atomic():
        Order.objects.create(id=order)
        Outbox.put("orders", "shop", {"order": order})


def make_invoice(message: Message) -> None:
    """Invoice and acknowledgement are one transaction; an error refuses the message."""
    Invoice.objects.using("billing").create(order_id=json.loads(message.payload or "{}")["order"])


if __name__ == "__main__":
    sys.modules["shop_django"] = sys.modules["__main__"]
    if sys.argv[1] == "send":
        send(int(sys.argv[2]))
    else:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
