"""Airflow DAGs that have messages read again, one per route of relaybox.yaml; a backfill of one is a replay."""

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.replay_dags import build_replay_dags

globals().update(build_replay_dags(read_routes()))
