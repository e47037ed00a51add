"""Builds no DAG. While relaybox.yaml is wrong, Airflow shows it as the import error of this file, and keeps the last good DAGs."""

from relaybox.airflow.dags import check_routes

check_routes()
