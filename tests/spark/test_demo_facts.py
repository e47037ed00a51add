"""What the demo's report reads of derivation and lake, against what is in the stores."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from relaybox.local.demo import spark_facts
from relaybox.local.demo.airline import Fate, Transaction, carry_out, open_engine
from relaybox.local.demo.flights import Row, metadata, read_flights
from relaybox.local.demo.spark_facts import SparkProgress, SparkProgressReader
from relaybox.local.demo.stack import DERIVED_ROUTE, EXPORT, demo_routes
from relaybox.spark.derivations.deriving import derive
from relaybox.spark.lake.exporting import export_stream
from relaybox.spark.tasks import ContextSession
from tests.spark.frames import serve
from tests.support.lake import InProcess
from tests.support.world import World

FLIGHTS = read_flights(("HA", "OO"))[:30]


def test_the_query_of_the_demo_tells_of_each_flight_once(frames: SparkSession, world: World, tmp_path: Path) -> None:
    """Before and after derivation and export."""
    world.path.write_text(yaml.safe_dump(demo_routes(tmp_path)))
    world.register()
    metadata.create_all(open_engine("airline", "test"))
    with open_engine("airline", "test").connect() as connection:
        carry_out(connection, Transaction(Fate.COMMITTED, FLIGHTS))
    world.transfer_all()
    route, export = world.routes.route(DERIVED_ROUTE), world.routes.export(EXPORT)
    with closing(SparkProgressReader(route, export)) as reader:
        assert reader.read() == SparkProgress(0, 0, 0, 0, 0)
        serve(frames)
        derive(route, route.require_derivation(), ContextSession(frames.sparkContext), recorded_by="test")
        export_stream(export, InProcess())
        days = {(row["carrier"], row["scheduled_at"][:10]) for row in FLIGHTS}
        assert reader.read() == SparkProgress(1, 30, len(days), 0, 30)
        assert not reader.read().has_derived(30)
        world.transfer(world.routes.hop(f"{DERIVED_ROUTE}/1"))
        found = reader.read_derived()
    assert found.progress.has_derived(30)
    assert found.flights == Counter(row["carrier"] for row in FLIGHTS)
    assert found.late == Counter(row["carrier"] for row in FLIGHTS if late(row))


def late(row: Row) -> bool:
    return (row["departure_delay_minutes"] or 0) > 15


def test_the_table_is_compared_with_its_stream(world: World, tmp_path: Path) -> None:
    """The demo does it in a Spark of its own; here the tasks run in this process."""
    world.path.write_text(yaml.safe_dump(demo_routes(tmp_path)))
    world.register()
    world.send("one", "two")
    world.transfer_all()
    export = world.routes.export(EXPORT)
    export_stream(export, InProcess())
    found = spark_facts.compare_lake(export, InProcess())
    assert (found.version, found.row_count, found.compared_count, found.first_difference) == (1, 2, 2, None)
    world.query("analytics", "update relaybox_internal.log set payload = 'other' where log_position = 2")
    assert spark_facts.compare_lake(export, InProcess()).first_difference == 2
