"""Relaybox's one Airflow plugin: the page, the tab of a DAG, and the links of a task to what it moved and to its Spark application.

Triggers, operators and policies need no registration: Airflow imports them by name; the timetable of replays does.
Airflow finds it by the entry point of the installed package, or by plugins/relaybox_plugin.py where the checkout is mounted.
"""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

import relaybox
from relaybox.airflow.dags.replay_timetable import ReplayTimetable
from relaybox.airflow.links import DAG_ROUTE, NAVIGATION_ROUTE, PREFIX, BatchesLink, SparkApplicationLink
from relaybox.airflow.page.asgi import MountedPage


class RelayboxPlugin(AirflowPlugin):
    """Listed by its name."""

    name = relaybox.__name__
    fastapi_apps: list[Any] = [{"app": MountedPage(), "url_prefix": PREFIX, "name": relaybox.__name__}]
    external_views: list[Any] = [
        {
            "name": "Relaybox",
            "href": f"{PREFIX}/map",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": NAVIGATION_ROUTE,
            "icon": f"{PREFIX}/static/icon.svg",
            "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg",
        },
        {"name": "Relaybox", "href": f"{PREFIX}/of-dag?dag={{DAG_ID}}", "destination": "dag", "url_route": DAG_ROUTE},
    ]
    operator_extra_links: list[Any] = [BatchesLink(), SparkApplicationLink()]
    timetables: list[Any] = [ReplayTimetable]
