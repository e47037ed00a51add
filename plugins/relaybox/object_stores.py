"""Object stores, opened for obstore: the login comes from the environment, or from the role of the machine."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.store import from_url

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_CONNECT_TIMEOUT = timedelta(seconds=5)
_RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}


def open_object_store(uri: str, *, timeout_seconds: float = 30) -> ObjectStore:
    """The objects below a URI such as s3://bucket/prefix. Connects to nothing.

    Args:
        uri: without a login.
        timeout_seconds: of one request, its content included.
    """
    allows_http = os.environ.get("AWS_ALLOW_HTTP", os.environ.get("aws_allow_http", "")).lower() in {"true", "1"}  # noqa: SIM112
    timeout = timedelta(seconds=timeout_seconds)
    client: ClientConfig = {"allow_http": allows_http, "connect_timeout": _CONNECT_TIMEOUT, "timeout": timeout}
    return from_url(uri.replace("s3a://", "s3://", 1), client_options=client, retry_config=_RETRIES)
