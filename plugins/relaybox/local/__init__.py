"""The embedded stack: Postgres, Java and Airflow from wheels, on one machine and on loopback only."""
