"""Airflow DAGs that skip missing messages after an approval: one per route of relaybox.yaml."""

from relaybox.airflow.dags.actions import build_skip_dags
from relaybox.airflow.deployment import read_routes

globals().update(build_skip_dags(read_routes()))
