"""The Airflow DAG that verifies delivery of every route of relaybox.yaml, once a day."""

from relaybox.airflow.dags.verify import build_verify_dag
from relaybox.airflow.deployment import read_routes

globals().update(build_verify_dag(read_routes()))
