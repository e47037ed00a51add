"""The Airflow DAG that proves delivery of every route of relaybox.yaml, once a day."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.verify_dag import build_verify_dag

globals().update(build_verify_dag(read_routes()))
