"""Airflow DAGs that give up messages which never came, once approved: one per route of relaybox.yaml."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.order_dags import build_skip_dags

globals().update(build_skip_dags(read_routes()))
