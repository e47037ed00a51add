"""The address of a Spark Connect server, as people write it and as its client takes it."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.client import DefaultChannelBuilder

from relaybox.spark.connect import with_session

SESSION = "00000000-0000-0000-0000-000000000001"


@pytest.mark.parametrize("address", ["sc://10.0.0.5:15002", "sc://10.0.0.5:15002/", "sc://10.0.0.5:15002/;use_ssl=true"])
def test_an_address_gets_the_id_of_a_session(address: str) -> None:
    """docs/spark.md writes it without a path."""
    builder = DefaultChannelBuilder(with_session(address, SESSION))
    assert (builder.endpoint, builder.session_id) == ("10.0.0.5:15002", SESSION)
