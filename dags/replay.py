"""Airflow DAGs that have messages read again, one per route of relaybox.yaml; a backfill of one is a replay."""

from relaybox.airflow.dags.replay import build_replay_dags
from relaybox.airflow.deployment import read_routes

globals().update(build_replay_dags(read_routes()))
