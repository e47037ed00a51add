"""The newest run of each derivation and export: one query of Airflow's database, for all users at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import func, select

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True)
class LastRun:
    """A run of a DAG.

    Attributes:
        state: as Airflow names it: queued, running, success or failed.
        begun_at, ended_at: None: not yet.
    """

    dag_id: str
    run_id: str
    state: str
    begun_at: datetime | None
    ended_at: datetime | None

    @property
    def name(self) -> str:
        """How ledgers name it."""
        return f"{self.dag_id} {self.run_id}"


def read_last_runs(dag_ids: Sequence[str]) -> dict[str, LastRun]:
    """By DAG; one that never ran is missing. Waits as long as Airflow's database does."""
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dag_ids)).group_by(DagRun.dag_id)
    asked = select(DagRun.dag_id, DagRun.run_id, DagRun.state, DagRun.start_date, DagRun.end_date).where(DagRun.id.in_(newest))
    with create_session() as session:
        return {row[0]: LastRun(row[0], row[1], str(row[2]), row[3], row[4]) for row in session.execute(asked)}
