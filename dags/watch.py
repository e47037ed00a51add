"""The Airflow DAG that looks after every hop of relaybox.yaml by the clock: what no event started, it triggers."""

from relaybox.airflow.dags.watch import build_watch_dag
from relaybox.airflow.deployment import read_routes

globals().update(build_watch_dag(read_routes()))
