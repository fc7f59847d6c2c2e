"""Views of a stream for programs: Prometheus' text on a port of this machine, and lines of JSON in a file.

The port is on loopback only: what a stream counts is nobody else's affair, and a proxy can be put before it. Port 0
takes any that is free.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from wayeb_py.errors import DataError
from wayeb_py.parallel.health.metrics import render_prometheus, samples
from wayeb_py.parallel.health.view import View

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Answers `GET /metrics` with the view of that moment, and `GET /view` with the same as JSON."""

    def __init__(self, port: int, look: Callable[[], View]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] == "/metrics":
                    self._answer(200, render_prometheus(samples(look())), CONTENT_TYPE)
                elif self.path.split("?")[0] == "/view":
                    self._answer(200, json.dumps(look().to_json()) + "\n", "application/json")
                else:
                    self._answer(404, "there are /metrics and /view\n", "text/plain")

            def _answer(self, status: int, text: str, content_type: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A request is no event of the stream."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            raise DataError(
                f"metrics cannot be served on port {port}: {getattr(error, 'strerror', None) or error}",
                hint="--metrics 0 takes any port that is free, and says which",
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="wayeb-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class MetricsFile:
    """A file to which views are added, a line each, at once."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[str] = path.open("a")
        except OSError as error:
            raise DataError(f"metrics cannot be written: {error.strerror}", str(path)) from None

    def write(self, view: View) -> None:
        self._file.write(json.dumps(view.to_json()) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
