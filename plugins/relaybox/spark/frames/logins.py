"""Which login a session of a DataFrame has: by a section of the service file, or by an Airflow connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from relaybox.stores.sessions.service_files import has_section


@contextmanager
def login_of(store: str) -> Iterator[None]:
    """Within the block libpq knows the service. Runs in each Python process of Spark that opens a session, where it opens it.

    A section of the service file is first. Without one the store is the name of an Airflow connection, if this Python has Airflow.
    So no password leaves the process that needs it: neither options, plans nor tasks of Spark have one.

    Raises:
        ConfigurationError, CredentialsUnavailable: the Airflow connection can't be used.
    """
    if has_section(store) or find_spec("airflow") is None:
        yield
        return
    # the layer above imports Airflow; only who has it comes here
    with import_module("relaybox.airflow.frame_logins").login_by_connection(store):
        yield
