"""The demo's data: all 336,776 flights, each with one producer."""

import json
from itertools import chain, pairwise

from relaybox.local.demo.flights import FLIGHT_COUNT, departs, message_of, read_flights
from relaybox.local.demo.producers import CARRIERS, LATE_CARRIER, YEAR


def test_every_flight_has_exactly_one_producer() -> None:
    """Four producers and the late transaction share all flights; the four have nearly equal parts."""
    parts = [read_flights(carriers) for carriers in (*CARRIERS.values(), (LATE_CARRIER,))]
    ids = sorted(row["flight_id"] for row in chain(*parts))
    assert ids == list(range(1, FLIGHT_COUNT + 1))
    assert all(80_000 < len(part) < 90_000 for part in parts[:-1])


def test_flights_are_in_the_order_of_departure_and_within_the_year() -> None:
    flights = read_flights(("HA", "OO"))
    assert len(flights) == 342 + 32
    assert all(departs(before) < departs(after) for before, after in pairwise(flights))
    begin, end = (moment.isoformat() for moment in YEAR)
    assert begin <= flights[0]["scheduled_at"] <= flights[-1]["scheduled_at"] < end


def test_what_the_data_set_does_not_know_is_null() -> None:
    """A cancelled flight has no delay: NA becomes None, not a text."""
    flights = read_flights(("OO",))
    cancelled = [row for row in flights if row["departure_delay_minutes"] is None]
    assert len(cancelled) == 3
    assert "NA" not in {value for row in flights for value in row.values()}


def test_the_message_is_the_flight_as_json_from_its_carrier() -> None:
    (flight, *_) = read_flights(("OO",))
    message = message_of(flight)
    assert (message["topic"], message["sender"], message["key"]) == ("flights", "OO", flight["tail_number"])
    assert json.loads(message["payload"]) == flight
