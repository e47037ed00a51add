"""Common parts of the DAGs: options, retries, and which of them to build."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, AssetAny, CronTriggerTimetable, get_parsing_context
from airflow.sdk.definitions.timetables.assets import AssetOrTimeSchedule

from relaybox.routes import Hop, Retries, Route, Routes, Store

LOOK_CRON = "*/5 * * * *"
"""The schedule of the watch DAG."""

STREAM_CRON = "*/10 * * * *"
"""When what reads a stream looks without an event."""

SHORT_TASK: dict[str, Any] = {"priority_weight": 10, "weight_rule": "absolute"}
"""Options of short tasks: in a full pool they go before transfers, which hold a slot while messages flow."""


def build_hop_dags(routes: Routes, dag_id: Callable[[Hop], str], build: Callable[[Route, Hop], DAG]) -> dict[str, DAG]:
    """One DAG per hop, by id, in the order of the routes.

    A task asks for its own DAG only (the parsing context says which), and only that one is built.
    """
    return {dag_id(hop): build(route, hop) for route in routes.routes.values() for hop in route.hops if wanted(dag_id(hop))}


def build_route_dags(routes: Routes, dag_id: Callable[[Route], str], build: Callable[[Route], DAG]) -> dict[str, DAG]:
    """One DAG per route, by id, likewise."""
    return {dag_id(route): build(route) for route in routes.routes.values() if wanted(dag_id(route))}


def wanted(dag_id: str) -> bool:
    """Tells whether this process parses the file for that DAG, or for all."""
    return get_parsing_context().dag_id in (None, dag_id)


def by_clock(cron: str) -> CronTriggerTimetable:
    """Runs at the times of `cron`, in UTC; never for a time before the DAG was created.

    By default Airflow runs a new DAG at once when its last time is less than a tenth of its interval ago: a daily DAG
    within 2.4 hours. `False` is its default and means the same; a start date makes it worse (always at once, without
    catch-up).
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))


def by_stream(store: Store, assets: AssetAny) -> AssetAny | AssetOrTimeSchedule:
    """Runs at these events, and every ten minutes, if one was dropped or the file has something new: unless the store may sleep."""
    if not store.watch.listen:
        return assets
    return AssetOrTimeSchedule(timetable=by_clock(STREAM_CRON), assets=assets)


def dag_options(hop: Hop, kind: str) -> dict[str, Any]:
    """Options of a hop's DAGs. One run at a time saves work; it keeps nothing correct."""
    return {
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["relaybox", hop.route, kind],
        "default_args": {"owner": hop.owner, **retry_options(hop.retries)},
    }


def route_dag_options(route: Route, kind: str) -> dict[str, Any]:
    """Options of a DAG that people start: several runs may be open, because some wait for an approval."""
    return {
        "catchup": False,
        "tags": ["relaybox", route.name, kind],
        "default_args": {"owner": route.owner, **retry_options(route.retries)},
    }


def retry_options(retries: Retries) -> dict[str, Any]:
    """The route's retries in Airflow's words: attempts count the first attempt, retries do not."""
    return {
        "retries": retries.attempts - 1,
        "retry_delay": timedelta(seconds=retries.delay_seconds),
        "retry_exponential_backoff": retries.backoff,
        "max_retry_delay": timedelta(seconds=retries.max_delay_seconds),
    }
