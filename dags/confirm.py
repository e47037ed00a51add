"""Airflow DAGs that confirm messages back to where they came from: one per hop of relaybox.yaml."""

from relaybox.airflow.dags.confirm import build_confirm_dags
from relaybox.airflow.deployment import read_routes

globals().update(build_confirm_dags(read_routes()))
