"""Tests of shop_psycopg.py on real stores. Needs `pip install 'relaybox[testing]'`, and in pyproject.toml the topics.

[tool.pytest.ini_options]
relaybox_topics = ["orders"]
"""

import psycopg
import pytest
import shop_psycopg

from relaybox.consumer import Consumer
from relaybox.testing import TestStores


@pytest.fixture
def shop(relaybox_stores: TestStores, monkeypatch: pytest.MonkeyPatch) -> TestStores:
    """Both stores, with the tables of the application."""
    relaybox_stores.outbox.query("create table shop_order (id integer primary key)")
    relaybox_stores.inbox.query("create table invoice (order_id integer primary key)")
    relaybox_stores.subscribe("invoices", "orders", nack_limit=1)
    monkeypatch.setenv("SHOP_URL", relaybox_stores.outbox.url)
    monkeypatch.setenv("BILLING_URL", relaybox_stores.inbox.url)
    return relaybox_stores


def consume() -> None:
    """Handles what was delivered."""
    with Consumer(shop_psycopg.open_billing, "invoices", until_empty=True) as consumer:
        consumer.run(shop_psycopg.make_invoice)


def test_an_order_becomes_one_invoice(shop: TestStores) -> None:
    """Also if the same order is sent twice: the second message becomes a dead letter."""
    shop_psycopg.send(7)
    shop.outbox.query("""insert into relaybox.outbox (topic, sender, payload) values ('orders', 'shop', '{"order": 7}')""")
    assert shop.deliver() == 2
    consume()
    assert shop.inbox.query("select order_id from invoice") == [(7,)]
    assert shop.inbox.query("select count(*) from relaybox.dead_letters") == [(1,)]


def test_an_order_that_fails_sends_nothing(shop: TestStores) -> None:
    """The stores of each test are empty."""
    shop_psycopg.send(7)
    with pytest.raises(psycopg.errors.UniqueViolation):
        shop_psycopg.send(7)
    assert shop.deliver() == 1
