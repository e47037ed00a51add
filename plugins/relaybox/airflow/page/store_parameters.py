"""What libpq needs to reach the stores from the API server: handed over connection by connection.

The API server is one process for many: a service file of ours in its environment would be read by Airflow's own sessions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.airflow.credentials import read_credentials
from relaybox.errors import ConfigurationError, CredentialsUnavailable
from relaybox.log_events import warn

if TYPE_CHECKING:
    from relaybox.routes import Store


def read_store_parameters(stores: Iterable[Store]) -> dict[str, Mapping[str, str]]:
    """The parameters of each store by its service, read anew from the stores' Airflow connections.

    A store whose connection is missing or wrong, or gives no token, is left out: asking it is a ConfigurationError, and others are not
    its business.
    """
    found: dict[str, Mapping[str, str]] = {}
    for store in stores:
        try:
            found[store.service] = read_credentials(store.connection)
        except (AirflowNotFoundException, ConfigurationError):
            continue
        except CredentialsUnavailable as error:
            warn("credentials_not_renewed", service=store.service, source=f"Airflow connection {store.connection}", error=error)
    return found
