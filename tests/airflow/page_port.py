"""The page's API server at a port, for browsers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tests.airflow.page_client import PageServer
from tests.support.patience import patience
from tests.support.world import wait_until


@contextmanager
def served(page: PageServer) -> Iterator[str]:
    """The address of the server, which answers while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(page.app, lifespan="off", log_level="warning"))
        thread = threading.Thread(target=server.run, args=([listening],), name="page-server")
        thread.start()
        try:
            wait_until(lambda: server.started, "the server listens")
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(patience(30))
