"""Where the page of a Spark application is."""

from __future__ import annotations

import pytest

from relaybox.errors import ConfigurationError
from relaybox.monitoring.spark_pages import application_address


@pytest.mark.parametrize(
    ("setting", "address"),
    [
        ("http://history:18080", "http://history:18080/history/app-1%2F2/"),
        ("https://spark.example/logs/", "https://spark.example/logs/history/app-1%2F2/"),
        ("https://yarn:8090/proxy/{application}", "https://yarn:8090/proxy/app-1%2F2"),
        ("", None),
    ],
)
def test_an_application_has_the_address_that_the_deployment_says(
    monkeypatch: pytest.MonkeyPatch, setting: str, address: str | None
) -> None:
    """Of Spark's history server, or of whatever has {application} in it; nothing where nobody said."""
    monkeypatch.setenv("RELAYBOX_SPARK_UI", setting)
    assert application_address("app-1/2") == address
    assert application_address(None) is None


@pytest.mark.parametrize("setting", ["javascript:alert(1)", "history:18080", "//history", "http://"])
def test_what_is_no_web_address_is_refused(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """It would become a link."""
    monkeypatch.setenv("RELAYBOX_SPARK_UI", setting)
    with pytest.raises(ConfigurationError, match="RELAYBOX_SPARK_UI: expected the address of Spark's history server"):
        application_address("app-1")
