"""Airflow DAGs that give dead letters to their consumers again, once approved: one per route of relaybox.yaml."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.order_dags import build_redrive_dags

globals().update(build_redrive_dags(read_routes()))
