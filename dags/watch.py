"""The Airflow DAG that looks after every hop of relaybox.yaml by the clock: what no event started, it wakes."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.watch_dag import build_watch_dag

globals().update(build_watch_dag(read_routes()))
