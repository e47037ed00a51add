"""The Airflow DAG that drops the segments that no hop and no subscription needs, in every store of relaybox.yaml, once a day."""

from relaybox.airflow.dags.retention import build_retention_dag
from relaybox.airflow.deployment import read_routes

globals().update(build_retention_dag(read_routes()))
