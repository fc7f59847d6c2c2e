"""Views of a stream for programs: Prometheus' text on a port of this machine, and lines of JSON in a file.

prometheus_client renders the text and answers Prometheus in the version that it requests. The port is on loopback only:
the counts of a stream are private to its machine, and a proxy can be put before it. Port 0 takes any that is free.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import IO, TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from wayeb_py.errors import DataError
from wayeb_py.parallel.health.metrics import PREFIX, Metric, samples
from wayeb_py.parallel.health.stream_view import StreamView

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family


class _Collector:
    """Makes metrics of a view whenever Prometheus requests them."""

    def __init__(self, look: Callable[[], StreamView]) -> None:
        self._look = look

    def collect(self) -> Iterator[Family]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        by_metric: dict[Metric, list[tuple[str, float]]] = {}
        for metric, label, value in samples(self._look()):
            by_metric.setdefault(metric, []).append((label, value))
        for metric, values in by_metric.items():
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            labels = [metric.label] if metric.label else []
            family = kind(PREFIX + metric.name, metric.help, labels=labels)
            for label, value in values:
                family.add_metric([label] if labels else [], value)
            yield family


def registry_of(look: Callable[[], StreamView]) -> CollectorRegistry:
    """What prometheus_client renders; DataError where it is not installed."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError:
        raise DataError(
            "--metrics needs prometheus-client, which is not installed",
            hint="pip install 'wayeb-py[metrics]', or write metrics to a file: --metrics-file FILE",
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(look))
    return registry


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: a request is no event of the stream."""


class MetricsServer:
    """Answers `GET /metrics` with the view of that moment, and `GET /view` with the same as JSON."""

    def __init__(self, port: int, look: Callable[[], StreamView]) -> None:
        registry = registry_of(look)
        from prometheus_client import make_wsgi_app

        metrics = make_wsgi_app(registry)

        def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            if environ["PATH_INFO"] == "/metrics":
                answered: Iterable[bytes] = metrics(environ, start)
                return answered
            if environ["PATH_INFO"] == "/view":
                start("200 OK", [("Content-Type", "application/json")])
                return [json.dumps(look().to_json()).encode() + b"\n"]
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"there are /metrics and /view\n"]

        try:
            self._server = make_server("127.0.0.1", port, answer, _Server, _Silent)
        except (OSError, OverflowError) as error:
            raise DataError(
                f"metrics cannot be served on port {port}: {getattr(error, 'strerror', None) or error}",
                hint="--metrics 0 takes any port that is free, and says which",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="wayeb-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/metrics"

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

    def write(self, view: StreamView) -> None:
        self._file.write(json.dumps(view.to_json()) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
