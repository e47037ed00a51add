"""All Airflow DAGs of Relaybox: of each hop, each route and the deployment that relaybox.yaml describes."""

from relaybox.airflow.dags import build_dags

globals().update(build_dags())
