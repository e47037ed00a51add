"""An object store of the tests: moto's S3, in a process of its own and with packages of its own (`make object-store`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from relaybox.local.clusters import find_free_port
from tests.support.patience import patience
from tests.support.world import wait_until

ROOT = Path(__file__).parents[2]
SECRET = "v3ry-s3cret"
BUCKET = "lake"
_PYTHON = Path(sys.prefix) / "moto" / "bin" / "python"


@dataclass(frozen=True)
class ObjectStore:
    """A server that has one bucket."""

    port: int
    pid: int

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Meanwhile it accepts connections, and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def environment(self, port: int | None = None) -> dict[str, str]:
        """With which everything in this repository reaches it, itself or by a proxy at a port."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "relaybox",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def running_object_store(*, ignores_conditions: bool = False) -> Iterator[ObjectStore]:
    """A store until the block ends.

    Args:
        ignores_conditions: whether a put replaces an object also if it was told not to (If-None-Match).
    """
    if not _PYTHON.exists():
        subprocess.run(["make", "--silent", "object-store", f"VENV={sys.prefix}"], cwd=ROOT, check=True)
    port = find_free_port()
    program = _PROGRAM.format(port=port, dropped="HTTP_IF_NONE_MATCH" if ignores_conditions else "")
    server = subprocess.Popen([_PYTHON, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(
            lambda: server.poll() is not None or _has_made_bucket(port),
            "the object store has its bucket",
            deadline_seconds=patience(60),
        )
        assert server.poll() is None, "the object store ended: python -c of its program says why"
        yield ObjectStore(port, server.pid)
    finally:
        server.kill()
        server.wait()


_PROGRAM = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

s3 = DomainDispatcherApplication(create_backend_app)


def serve(environment, start_response):
    environment.pop({dropped!r}, None)
    return s3(environment, start_response)


run_simple("127.0.0.1", {port}, serve, threaded=True)
"""


def _has_made_bucket(port: int) -> bool:
    with suppress(OSError), urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT"), timeout=patience(10)) as answer:
        return bool(answer.status == 200)
    return False
