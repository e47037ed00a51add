"""The tasks of an approved init: show what it would change, and change exactly that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.approvals import approved, cell
from relaybox.airflow.forms import STORE
from relaybox.airflow.naming import run_name
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.stores.init.all_stores import Outcome, initialise_stores, plan_stores
from relaybox.stores.init.plans import digest_target, find_unapproved, list_changes

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.routes import Routes, Store
    from relaybox.stores.init.one_store import StoreInitialised

EVERY_STORE = "every store"
OWNER_SUFFIX = "_owner"
"""The Airflow connection of a store's owner: the id of the store's connection with this suffix."""


OWNER_MISSING = "Add the connection of the store's owner in Airflow, for tasks alone (docs/daily.md, Init in Airflow)"


def as_owner(store: Store) -> Store:
    """Returns the store with the connection of its owner."""
    return replace(store, connection=f"{store.connection}{OWNER_SUFFIX}")


class _InitOperator(BaseOperator):
    """`routes`: of the DAG file; the form chooses the stores."""

    def __init__(self, *, routes: Routes, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.routes = routes

    def chosen(self, params: Mapping[str, Any]) -> list[Store]:
        name = params[STORE]
        return list(self.routes.stores.values()) if name == EVERY_STORE else [self.routes.store(name)]


class InitPlanOperator(_InitOperator):
    """Does what an init would do, rolls it back, and shows it; skips if nothing would change."""

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the changes of each store, the digest of their target, and a table to approve.

        Raises:
            AirflowSkipException: the stores are up to date.
        """
        stores = self.chosen(context["params"])
        with terminal_errors_fail_at_once(missing=OWNER_MISSING), service_file([as_owner(store) for store in stores]):
            outcome = plan_stores(stores, self.routes)
            _raise_first(outcome)
        if not any(plan.changed for plan in outcome.stores):
            raise AirflowSkipException(f"{', '.join(store.name for store in stores)}: up to date. There is nothing to approve.")
        changes = {plan.store: list_changes(plan) for plan in outcome.stores if plan.changed}
        table = plan_table(changes)
        self.log.info("%s", table)
        return {"changes": changes, "target": digest_target(self.routes), "table": table}


def plan_table(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns a Markdown table: a row for each change of each store."""
    rows = ["| store | what | change |", "|---|---|---|"]
    for store, fields in changes.items():
        for name, value in fields.items():
            listed = value if isinstance(value, list) else ["yes" if value is True else value]
            rows += [f"| {cell(store)} | {cell(name.replace('_', ' '))} | {cell(one)} |" for one in listed]
    return "\n".join(rows)


class InitOperator(_InitOperator):
    """Does what was approved, and nothing else. Idempotent: a retry does the rest of it.

    The stores are planned again while no other init can run. What the plan has beyond the approved one fails the task, and nothing
    is changed: a store that was changed meanwhile has to be shown and approved anew.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns the stores that were changed, and who approved."""
        shown_plan, approved_by = approved(context)
        if shown_plan["target"] != digest_target(self.routes):
            raise AirflowFailException(
                "relaybox.yaml or the installed Relaybox is not the one whose plan was approved. Nothing was changed. "
                "Trigger a new run, and approve its plan."
            )

        def require(plans: Sequence[StoreInitialised]) -> None:
            beyond = [
                f"store {plan.store}: {one}"
                for plan in plans
                for one in find_unapproved(plan, shown_plan["changes"].get(plan.store))
            ]
            if beyond:
                raise AirflowFailException(
                    f"{len(beyond)} changes are not those that were approved: {'; '.join(beyond)}. A store was changed since its plan was "
                    "shown. Nothing was changed by this task. Trigger a new run, and approve its plan."
                )

        stores = self.chosen(context["params"])
        with terminal_errors_fail_at_once(missing=OWNER_MISSING), service_file([as_owner(store) for store in stores]):
            recorded_by = f"{run_name(context['ti'])}, approved by {approved_by}"
            outcome = initialise_stores(stores, self.routes, recorded_by=recorded_by, require=require)
            _raise_first(outcome)
        changed = [done.store for done in outcome.stores if done.changed]
        self.log.info("stores changed: %s; approved by %s", ", ".join(changed) or "none", approved_by)
        return {"changed": changed, "approved_by": approved_by}


def _raise_first(outcome: Outcome) -> None:
    for error in outcome.failures.values():
        raise error
