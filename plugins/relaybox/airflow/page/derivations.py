"""The derivations and exports that one user may see: how far they are in the store, and what Airflow says of their DAGs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from relaybox.airflow.approvals import PATIENCE
from relaybox.airflow.naming import derive_dag_id, export_dag_id, promote_dag_id

if TYPE_CHECKING:
    from relaybox.airflow.page.last_runs import LastRun
    from relaybox.airflow.page.permissions import Rights
    from relaybox.airflow.page.streams import AllStreams, UnreadStore
    from relaybox.monitoring.derivations import DerivationStatus, OpenTrial
    from relaybox.routes import Derivation, Export, Route
    from relaybox.subscriptions.subscriptions import SubscriptionStatus


@dataclass(frozen=True)
class DagStatus:
    """What Airflow says of a DAG; unknown while its database is late.

    Attributes:
        is_paused: None: unknown.
        last_run: None: it never ran, or unknown.
    """

    dag_id: str
    is_paused: bool | None
    last_run: LastRun | None

    @property
    def failed(self) -> bool:
        return self.last_run is not None and self.last_run.state == "failed"


@dataclass(frozen=True)
class VisibleDerivation:
    """A route whose messages are derived.

    Attributes:
        status: None: the store has not begun it, or was not read. Its `reason` is None for who may not start the DAG.
        subscription: of its version in relaybox.yaml, or of `next` once that is promoted; None: the store has none.
        trial: that is open; None: there is none, or the store was not read.
        promote_dag_id: of the DAG that asks whether to promote it; None: the user may not read it, or relaybox.yaml has no `next`.
    """

    route: Route
    dag: DagStatus
    status: DerivationStatus | None
    subscription: SubscriptionStatus | None
    is_unread: bool
    trial: OpenTrial | None = None
    promote_dag_id: str | None = None

    @property
    def derivation(self) -> Derivation:
        """As relaybox.yaml says it: `next`, once the store has promoted that."""
        return running(self.route, self.status)

    @property
    def is_trial_late(self) -> bool:
        """Whether nobody has promoted or dropped the trial for longer than a run of its DAG waits for an answer."""
        return self.trial is not None and self.trial.open_seconds > PATIENCE.total_seconds()

    @property
    def state(self) -> str:
        """`unread`, `not begun`, `failed`, `deriving`, `behind` or `up to date`."""
        if self.is_unread:
            return "unread"
        if self.subscription is None:
            return "failed" if self.dag.failed else "not begun"
        if self.dag.failed or (self.status is not None and self.status.state == "failed"):
            return "failed"
        if self.status is not None and self.status.state == "open":
            return "deriving"
        return "behind" if self.subscription.stream_positions_behind else "up to date"


@dataclass(frozen=True)
class VisibleExport:
    """A stream that is written into a lake.

    Attributes:
        subscription: None: the store has none, so nothing was exported yet, or the store was not read.
    """

    export: Export
    dag: DagStatus
    subscription: SubscriptionStatus | None
    is_unread: bool

    @property
    def state(self) -> str:
        """`unread`, `not begun`, `failed`, `behind` or `up to date`."""
        if self.is_unread:
            return "unread"
        if self.dag.failed:
            return "failed"
        if self.subscription is None:
            return "not begun"
        return "behind" if self.subscription.stream_positions_behind else "up to date"


@dataclass(frozen=True)
class VisibleDerivations:
    """What one user sees: those whose DAG the user may read."""

    derivations: tuple[VisibleDerivation, ...]
    exports: tuple[VisibleExport, ...]
    unread: tuple[UnreadStore, ...]


def running(route: Route, status: DerivationStatus | None) -> Derivation:
    """The derivation of a route that runs: `next`, once the store has promoted that."""
    derivation = route.require_derivation()
    promoted = status is not None and derivation.next is not None and derivation.next.version == status.version
    return derivation.next if promoted and derivation.next is not None else derivation


TAGS = {"unread": "silent", "not begun": "note", "failed": "stuck", "deriving": "busy", "behind": "busy", "up to date": "ok"}
"""The colour of each state."""


def derivations_seen_by(
    rights: Rights, streams: AllStreams, paused: Mapping[str, bool], last_runs: Mapping[str, LastRun]
) -> VisibleDerivations:
    """Asks for the user's rights on each DAG; may take as long as Airflow's auth manager takes."""
    unread = {one.store: one for one in streams.unread}
    subscriptions = {(one.store, one.subscription): one for one in streams.subscriptions}
    statuses = {(status.store, status.derivation.route): status.derivation for status in streams.derivations}

    trials = {(one.store, one.trial.route): one.trial for one in streams.trials}

    def dag(dag_id: str) -> DagStatus:
        return DagStatus(dag_id, paused.get(dag_id), last_runs.get(dag_id))

    def derivation(route: Route) -> VisibleDerivation:
        store, dag_id = route.path[0].name, derive_dag_id(route)
        status = statuses.get((store, route.name))
        if status is not None and not rights.may_start(dag_id):
            status = replace(status, reason=None)
        subscription = subscriptions.get((store, route.derive_subscription_of(running(route, status))))
        promote = promote_dag_id(route)
        asks = route.require_derivation().next is not None and rights.may_read_dag(promote)
        trial = trials.get((store, route.name))
        return VisibleDerivation(route, dag(dag_id), status, subscription, store in unread, trial, promote if asks else None)

    def export(one: Export) -> VisibleExport:
        store = one.store.name
        return VisibleExport(one, dag(export_dag_id(one)), subscriptions.get((store, one.subscription)), store in unread)

    derived = [route for route in streams.everything.routes.values() if route.derivation is not None]
    derivations = tuple(derivation(route) for route in derived if rights.may_read_dag(derive_dag_id(route)))
    exports = tuple(export(one) for one in streams.everything.exports.values() if rights.may_read_dag(export_dag_id(one)))
    return VisibleDerivations(
        derivations, exports, tuple(unread[store] for store in _stores(derivations, exports) if store in unread)
    )


def _stores(derivations: Iterable[VisibleDerivation], exports: Iterable[VisibleExport]) -> list[str]:
    return sorted({one.route.path[0].name for one in derivations} | {one.export.store.name for one in exports})
