"""The DAGs that are built from the routes, and their forms."""
