"""Where people look at a Spark application: in the history server, or whatever page the deployment has for it."""

from __future__ import annotations

import os
from urllib.parse import quote, urlsplit

from relaybox.errors import ConfigurationError

SPARK_UI = "RELAYBOX_SPARK_UI"
"""Environment variable: the address of Spark's history server, or any address with {application} in it."""

APPLICATION_FILE = "RELAYBOX_APPLICATION_FILE"
"""Environment variable of a Spark driver: the file that it writes its application's id to, for the task that started it."""

READY_FILE = "ready"
"""The name of an empty file beside it, which a driver makes when its workers have started."""


def application_address(application: str | None) -> str | None:
    """The address of an application's page; None without an application, or where RELAYBOX_SPARK_UI is not set.

    Raises:
        ConfigurationError: RELAYBOX_SPARK_UI is no http address.
    """
    address = os.environ.get(SPARK_UI)
    if not application or not address:
        return None
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(
            f"{SPARK_UI}: expected the address of Spark's history server, got {address!r}.",
            next_step="For example: http://spark-history:18080, or https://yarn:8090/proxy/{application}",
        )
    named = quote(application, safe="")
    if "{application}" in address:
        return address.replace("{application}", named)
    return f"{address.rstrip('/')}/history/{named}/"
