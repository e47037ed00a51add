"""Airflow DAGs that move messages: one per hop of relaybox.yaml."""

from relaybox.airflow.dags.transfer import build_transfer_dags
from relaybox.airflow.deployment import read_routes

globals().update(build_transfer_dags(read_routes()))
