"""The Airflow DAG that drops what nobody needs any more, in every store of relaybox.yaml, once a day."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.retention_dag import build_retention_dag

globals().update(build_retention_dag(read_routes()))
