"""docs/examples/author_dags.py: Airflow reads it, and its tasks send and handle messages on real stores."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from tests.airflow.conftest import REPOSITORY
from tests.support.world import World

EXAMPLE = REPOSITORY / "docs" / "examples" / "author_dags.py"


def instance(dag: Any, task_id: str) -> Any:
    return SimpleNamespace(dag_id=dag.dag_id, task_id=task_id, map_index=-1, run_id="r1", try_number=1)


def test_the_example_sends_and_handles_each_message_once(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both DAGs, from the outbox over two hops to a table of the handler; every task is run twice, as after a clear."""
    for name, store in (("AIRLINE_APP", "AIRLINE"), ("BILLING_APP", "HUB")):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", os.environ[f"AIRFLOW_CONN_RELAYBOX_{store}"])
    bag = DagBag(dag_folder=str(EXAMPLE), bundle_path=EXAMPLE.parent, bundle_name="examples")
    assert bag.import_errors == {}
    sends, bills = bag.dags["send_flights"], bag.dags["bill_flights"]
    connected.query("hub", "create table public.invoice (message_id uuid, content text)")
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")

    rows = sends.get_task("read_flights").python_callable()
    send = sends.get_task("send")
    assert send.upstream_task_ids == {"read_flights"}
    send.rows = rows  # what Airflow puts there of the XCom
    for is_first in (True, False):
        assert send.execute({"ti": instance(sends, "send")})["sent_now"] == is_first
    connected.transfer_all()
    for count in (2, 0):
        assert bills.get_task("bill").execute({"ti": instance(bills, "bill")})["acknowledged"] == count
    invoices = connected.query("hub", "select content from public.invoice order by content desc")
    assert [json.loads(content) for (content,) in invoices] == rows
    assert connected.query("hub", "select count(distinct message_id) from public.invoice") == [(2,)]

    condition = DagSerialization.serialize_dag(bills)["timetable"]["__var"]["asset_condition"]
    (watcher,) = condition["watchers"]
    assert watcher["trigger"]["classpath"] == "relaybox.airflow.subscription_trigger.SubscriptionTrigger"
