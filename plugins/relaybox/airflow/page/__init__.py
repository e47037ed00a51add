"""The Relaybox page in Airflow's UI: maps, charts and buttons over what the stores say. Served by the API server only."""
