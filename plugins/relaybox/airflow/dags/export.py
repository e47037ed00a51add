"""One DAG per export of a stream into a lake."""

from __future__ import annotations

from airflow.sdk import DAG

from relaybox.airflow.assets import export_assets
from relaybox.airflow.dags.docs import export_doc
from relaybox.airflow.dags.factory import by_stream, retry_options, wanted
from relaybox.airflow.naming import EXPORT_TASK_ID, export_dag_id
from relaybox.airflow.operators.export import ExportOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.routes import Export, Routes


def build_export_dags(routes: Routes) -> dict[str, DAG]:
    """The DAGs of exports, by id. Reads no database."""
    exports = routes.exports.values()
    return {export_dag_id(export): _export_dag(routes, export) for export in exports if wanted(export_dag_id(export))}


def _export_dag(routes: Routes, export: Export) -> DAG:
    with DAG(
        export_dag_id(export),
        dag_display_name=f"{export.name} export",
        description=f"Writes stream {export.stream} of store {export.store.name} into the {export.format} table {export.path}",
        doc_md=export_doc(export),
        schedule=by_stream(export.store, export_assets(routes, export)),
        catchup=False,
        max_active_runs=1,
        tags=["relaybox", export.name, "export"],
        default_args={"owner": export.owner, **retry_options(export.retries)},
    ) as dag:
        ExportOperator(
            task_id=EXPORT_TASK_ID,
            export=export,
            routes_text=routes.text,
            pool=export.store.pool,
            retry_policy=DriverExitPolicy(),
        )
    return dag
