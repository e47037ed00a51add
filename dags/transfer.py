"""Airflow DAGs that move messages: one per hop of relaybox.yaml."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.transfer_dags import build_transfer_dags

globals().update(build_transfer_dags(read_routes()))
