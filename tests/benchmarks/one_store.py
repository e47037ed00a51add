"""A cluster of its own with one store, for benchmarks of what a producer calls."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relaybox.local.clusters import create_cluster, write_service_file
from relaybox.routes import load_routes
from relaybox.stores.init.one_store import initialise_store
from tests.support.world import STORES, routes_file


@contextmanager
def one_store() -> Iterator[dict[str, str]]:
    """The store `airline`, initialised, while the block runs. Yields the parameters of libpq that lead to it as the owner."""
    with tempfile.TemporaryDirectory() as directory:
        cluster = create_cluster("airline", Path(directory) / "airline")
        Path(directory).chmod(0o755)
        try:
            cluster.start()
            parameters = dict(cluster.parameters("postgres"))
            service_file = Path(directory) / "services.conf"
            write_service_file(service_file, dict.fromkeys(STORES, parameters))
            os.environ["PGSERVICEFILE"] = str(service_file)
            routes = load_routes(routes_file(Path(directory)))
            initialise_store(routes.stores["airline"], routes)
            yield parameters
        finally:
            cluster.remove()
