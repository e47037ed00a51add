"""Airflow decides when a hop runs and shows what happened; it holds no fact of the protocol."""
