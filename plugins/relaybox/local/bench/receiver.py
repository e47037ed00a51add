"""A receiver of webhooks for a benchmark, in a process of its own: prints its port, then a line for each request. Ends with its stdin."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 to each message, and prints its stream position and the time, in seconds since 1970."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Takes one message."""
        now = time.time()
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(204)
        self.end_headers()
        os.write(1, f"{body['relaybox']['stream_position']} {now}\n".encode())  # one call: threads never mix lines

    def log_message(self, *_: Any) -> None:
        """The lines are the log."""


def main() -> None:
    """Serves until stdin ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    os.write(1, f"{server.server_port}\n".encode())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
