"""A store of a DataFrame is a section of the service file, or else an Airflow connection; its password is in nothing that Spark has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relaybox import errors
from relaybox.spark.frames import logins, register
from relaybox.spark.frames.arrow_copy import read_messages
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.ranges import pin_range
from relaybox.spark.frames.source import RelayboxSource
from tests.support.services import read_service
from tests.support.streams import STORE, STREAM, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

CONNECTION = "hub_by_airflow"
VARIABLE = f"AIRFLOW_CONN_{CONNECTION.upper()}"
PASSWORD = "Tr0ub4dor-and-3"


@pytest.fixture
def connection(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An Airflow connection to the hub, of a login with a password, as its environment variable has it. No service file has it."""
    role = f"by_connection_{os.getpid()}"
    world.query(STORE, f"drop role if exists {role}")
    world.query(STORE, f"create role {role} login password '{PASSWORD}' in role relaybox_consumer, relaybox_producer")
    service = read_service(STORE)
    uri = json.dumps(
        {
            "conn_type": "postgres",
            "host": service["host"],
            "port": int(service["port"]),
            "schema": service["dbname"],
            "login": role,
            "password": PASSWORD,
        }
    )
    monkeypatch.setenv(VARIABLE, uri)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    yield uri
    world.query(STORE, f"drop owned by {role}")
    world.query(STORE, f"drop role {role}")


def read(store: str) -> list[int]:
    return [at for batch in read_messages(store, STREAM, 1, 5, columns=SCHEMA, only={}) for at in batch.column(0).to_pylist()]


def test_spark_reads_and_writes_by_an_airflow_connection(
    frames: SparkSession, flights: World, connection: str, tmp_path: Path
) -> None:
    """Each Python of Spark looks it up itself."""
    deliver(flights, 5)
    environment = frames.sparkContext.environment
    before = dict(environment)
    environment |= {VARIABLE: connection, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    register(frames)
    try:
        frame = frames.read.format("relaybox").options(store=CONNECTION, stream=STREAM).load()
        assert sorted(row.stream_position for row in frame.select("stream_position").collect()) == [1, 2, 3, 4, 5]
        assert PASSWORD not in frame._jdf.queryExecution().toString()  # noqa: SLF001
        options = {"store": CONNECTION, "sender": "s", "topic": "flights", "write_id": "w"}
        frame.select("payload").write.format("relaybox").options(**options).mode("append").save()
        assert flights.value(STORE, "select count(*) from relaybox.outbox") == 5
        with pytest.raises(PySparkException, match="nowhere") as refused:
            frames.read.format("relaybox").options(store="nowhere", stream=STREAM).load().count()
        assert "Airflow connection" in str(refused.value)
    finally:
        environment.clear()
        environment.update(before)
        register(frames)


def test_what_travels_to_tasks_has_the_name_of_a_connection_and_no_login(world: World, connection: str) -> None:
    deliver(world, 5)
    reader = RelayboxSource({"store": CONNECTION, "stream": STREAM}).reader(SCHEMA)
    (partition,) = reader.partitions()
    assert [at for batch in reader.read(partition) for at in batch.column(0).to_pylist()] == [1, 2, 3, 4, 5]
    for travels in (reader, partition):
        assert PASSWORD.encode() not in cloudpickle.dumps(travels)
    assert CONNECTION.encode() in cloudpickle.dumps(reader)


def test_a_section_of_the_service_file_wins(world: World, connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So an executor without Airflow, or with another one, has a section of this name."""
    deliver(world, 5)
    assert read(CONNECTION) == [1, 2, 3, 4, 5]
    path = Path(os.environ["PGSERVICEFILE"])
    given = connection.replace(PASSWORD, "wrong")
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(errors.RelayboxError) as refused:
        read(CONNECTION)
    assert "wrong" not in str(refused.value)
    section = "\n".join(f"{name}={value}" for name, value in read_service(STORE).items())
    path.write_text(f"{path.read_text(encoding='utf-8')}\n[{CONNECTION}]\n{section}\n", encoding="utf-8")
    assert read(CONNECTION) == [1, 2, 3, 4, 5]


def test_without_airflow_the_error_names_the_section(world: World, connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "find_spec", lambda _: None)
    with pytest.raises(errors.ConfigurationError, match=rf"Add a section \[{CONNECTION}\]"):
        pin_range(CONNECTION, STREAM, "earliest", None)


def test_no_file_with_a_password_is_left(world: World, connection: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deliver(world, 5)
    batches = read_messages(CONNECTION, STREAM, 1, 5, columns=SCHEMA, only={})
    next(batches)
    found = list(tmp_path.glob("relaybox-services-*/pg_service.conf"))
    assert [oct(file.stat().st_mode & 0o777) for file in found] == ["0o600"]
    assert [oct(file.parent.stat().st_mode & 0o777) for file in found] == ["0o700"]
    batches.close()
    assert not list(tmp_path.glob("relaybox-services-*"))
