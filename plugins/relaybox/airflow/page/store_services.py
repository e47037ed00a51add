"""Hands the credentials of stores to libpq in the API server, which serves many requests at once and lives long.

A service file is named by the environment, so there is one per process. This one is in memory only: no path leads to it from
outside, it ends with the process, and a new version takes the old one's place in one step.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.airflow.libpq_parameters import libpq_parameters
from relaybox.airflow.service_file import service_file_text
from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from relaybox.routes import Store


class StoreServices:
    """The service file of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._text = ""

    def renew(self, stores: Iterable[Store]) -> None:
        """Reads the stores' Airflow connections again, and has PGSERVICEFILE name them in this process.

        A store whose connection is missing or wrong is left out: connecting to it is a ConfigurationError, and others are not its business.
        """
        sections = {}
        for store in stores:
            try:
                sections[store.service] = libpq_parameters(BaseHook.get_connection(store.connection))
            except (AirflowNotFoundException, ConfigurationError):
                continue
        with self._lock:
            self._replace(service_file_text(sections))
            os.environ["PGSERVICEFILE"] = f"/proc/self/fd/{self._descriptor}"

    def _replace(self, text: str) -> None:
        if self._descriptor is not None and text == self._text:
            return
        fresh = os.memfd_create("relaybox services")
        os.write(fresh, text.encode())
        if self._descriptor is None:
            self._descriptor = fresh
        else:
            os.dup2(
                fresh, self._descriptor, inheritable=False
            )  # a session that opens at this moment reads the old file or the new one
            os.close(fresh)
        self._text = text
