"""Which of Relaybox's DAGs are paused: one small query of Airflow's database, for all users at once."""

from __future__ import annotations

from airflow.models.dag import DagModel, DagTag
from airflow.utils.session import create_session
from sqlalchemy import select

TAG = "relaybox"


def read_paused_dags() -> dict[str, bool]:
    """Whether each DAG of Relaybox is paused; one that Airflow does not know is missing. Waits as long as Airflow's database does."""
    tagged = select(DagTag.dag_id).where(DagTag.name == TAG)
    asked = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(tagged), DagModel.is_stale.is_(False))
    with create_session() as session:
        return {dag_id: bool(is_paused) for dag_id, is_paused in session.execute(asked)}
