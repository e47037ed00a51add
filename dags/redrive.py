"""Airflow DAGs that redrive dead letters after an approval: one per route of relaybox.yaml."""

from relaybox.airflow.dags.actions import build_redrive_dags
from relaybox.airflow.deployment import read_routes

globals().update(build_redrive_dags(read_routes()))
