"""Relaybox's one Airflow plugin.

Triggers, operators and policies need no registration: Airflow imports them by name. The plugin shows in every component that the
library is there (Admin > Plugins), and gives one import error, there, if it is not.
"""

from airflow.plugins_manager import AirflowPlugin

import relaybox


class RelayboxPlugin(AirflowPlugin):
    """Listed by its name."""

    name = relaybox.__name__
