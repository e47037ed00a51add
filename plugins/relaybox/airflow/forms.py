"""The trigger forms of replay, redrive and skip, validated by Airflow before the run; and who triggered it."""

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
    """Returns the stores where consumers read the route, by name, in the order of its path."""
    return {hop.destination.name: hop.destination for hop in route.hops}


def asks_for_approval(route: Route) -> bool:
    """Whether a store where consumers read the route gives messages again only after an approval."""
    return any(store.require_approval for store in arrival_stores(route).values())


def chosen_store(route: Route, params: Mapping[str, Any]) -> Store:
    """Returns the store of the form."""
    return arrival_stores(route)[str(params[STORE])]


def store_param(route: Route, description: str) -> Param:
    """The default is the last store of the route."""
    names = list(arrival_stores(route))
    return Param(names[-1], type="string", enum=names, title="Store", description=description)


def text_param(title: str, description: str, **rules: Any) -> Param:
    """Returns a field that is empty at first."""
    return Param(None, type=["null", "string"], title=title, description=description, **rules)


def subscription_param(description: str) -> Param:
    return text_param("Subscription", description, pattern=SUBSCRIPTION_PATTERN)


def reason_param() -> Param:
    return text_param("Reason", "Why. The store records it with your name and this run.", minLength=3, maxLength=500)


def given(params: Mapping[str, Any], name: str, title: str) -> str:
    """Returns the value of a field. An empty field fails the run at once, with the name of the field."""
    value = str(params.get(name) or "").strip()
    if not value:
        raise AirflowFailException(f"The field {title} ({name}) is empty. Trigger a new run and fill it in.")
    return value


def asker(context: Context) -> str:
    """Returns the run and its number of clears: a cleared run makes a new request."""
    run = context["dag_run"]
    return run_name(run) + (f" cleared {run.clear_number}" if run.clear_number else "")


def person(context: Context) -> str:
    """Returns the Airflow user who started the run."""
    return context["dag_run"].triggering_user_name or "unknown user"
