"""What the trigger forms of replay, redrive and skip ask for, checked by Airflow before the run begins; and who asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from relaybox.airflow.naming import run_name
from relaybox.routes import Route, Store

if TYPE_CHECKING:
    from airflow.sdk import Context

STORE, SUBSCRIPTION, REASON = "store", "subscription", "reason"
SUBSCRIPTION_PATTERN = "^[a-z0-9_.-]{1,60}$"


def arrival_stores(route: Route) -> dict[str, Store]:
    """Where the route's messages are read, by name, in the order of its path."""
    return {hop.destination.name: hop.destination for hop in route.hops}


def chosen_store(route: Route, params: Mapping[str, Any]) -> Store:
    """The store that the form names."""
    return arrival_stores(route)[str(params[STORE])]


def store_param(route: Route, description: str) -> Param:
    """The last store of the route is the form's."""
    names = list(arrival_stores(route))
    return Param(names[-1], type="string", enum=names, title="Store", description=description)


def text_param(title: str, description: str, **rules: Any) -> Param:
    """A field that begins empty."""
    return Param(None, type=["null", "string"], title=title, description=description, **rules)


def subscription_param(description: str) -> Param:
    return text_param("Subscription", description, pattern=SUBSCRIPTION_PATTERN)


def reason_param() -> Param:
    return text_param("Reason", "Why. It is written down in the store, with your name and this run.", minLength=3, maxLength=500)


def given(params: Mapping[str, Any], name: str, title: str) -> str:
    """What a field holds; a run whose field is empty fails at once, and says which."""
    value = str(params.get(name) or "").strip()
    if not value:
        raise AirflowFailException(f"The field {title} ({name}) is empty. Trigger a new run and fill it in.")
    return value


def asker(context: Context) -> str:
    """This run, and how often it was cleared: a cleared run asks anew."""
    run = context["dag_run"]
    return run_name(run) + (f" cleared {run.clear_number}" if run.clear_number else "")


def person(context: Context) -> str:
    """Who started the run, as Airflow knows them."""
    return context["dag_run"].triggering_user_name or "nobody named"
