"""What tasks tell OpenLineage: the tables that they read and wrote, and how many rows. Only where its provider is switched on.

Tables are named as OpenLineage names those of Postgres: namespace `postgres://host:port`, name `database.schema.table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from relaybox.airflow.libpq_parameters import libpq_parameters
from relaybox.amounts import amount
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from relaybox.routes import Hop, Route, Store
    from relaybox.verification.results import LegVerification, RouteVerification


@dataclass(frozen=True)
class Table:
    """A table of a store; nothing in it says who connects, or how."""

    namespace: str
    name: str


def lineage_is_asked_for() -> bool:
    """Whether the provider is installed and has a transport."""
    if find_spec("airflow.providers.openlineage") is None:
        return False
    from airflow.providers.openlineage.conf import is_disabled

    return not is_disabled()


def nothing_moved() -> OperatorLineage[Any, Any]:
    """What a task tells that read and wrote nothing."""
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage()


def transfer_lineage(hop: Hop, *, row_count: int) -> OperatorLineage[Any, Any]:
    """What a transfer of this many rows read and wrote. Asks both stores for the numbers of their logs."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset, output_statistics_output_dataset

    source, destination = _table(hop.source, hop.upstream), _table(hop.destination, hop.name)
    read = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=row_count)
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=row_count)
    return OperatorLineage(
        inputs=[InputDataset(source.namespace, source.name, inputFacets={"inputStatistics": read})],
        outputs=[OutputDataset(destination.namespace, destination.name, outputFacets={"outputStatistics": written})],
    )


def verification_lineage(route: Route, verification: RouteVerification) -> OperatorLineage[Any, Any]:
    """What a verification read: each log of the route, with what was found of it as an assertion."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as assertions

    def assertion(leg: LegVerification) -> assertions.DataQualityAssertionsDatasetFacet:
        made = assertions.Assertion(
            assertion="delivered",
            success=leg.defect_count == 0,
            description=f"Every message of hop {leg.name} is where it should be, once and unchanged.",
            expected="0 defects",
            actual=amount(leg.defect_count, "defect"),
        )
        return assertions.DataQualityAssertionsDatasetFacet(assertions=[made])

    tables = [(_table(hop.destination, hop.name), leg) for hop, leg in zip(route.hops, verification.hops, strict=True)]
    return OperatorLineage(
        inputs=[
            InputDataset(table.namespace, table.name, inputFacets={"dataQualityAssertions": assertion(leg)})
            for table, leg in tables
        ]
    )


def _table(store: Store, hop: str | None) -> Table:
    """The log of a hop that arrives in the store; without a hop its outbox."""
    parameters = libpq_parameters(BaseHook.get_connection(store.connection))
    table = "relaybox.outbox" if hop is None else f"relaybox_internal.log_{_log_id(store, hop)}"
    return Table(
        namespace=f"postgres://{parameters['host']}:{parameters.get('port', '5432')}",
        name=f"{parameters['dbname']}.{table}",
    )


def _log_id(store: Store, hop: str) -> int:
    with store_session(store, f"looking for the log of hop {hop}", application_name="relaybox look") as session:
        return int(session.value("select log_id from relaybox_internal.hop_in where hop = %s", hop))
