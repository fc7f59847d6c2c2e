"""Metrics: Prometheus can read them, on a port of this machine or line by line in a file."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.parallel.health.watched_stream import a_view
from tests.polling import DEADLINE_S
from wayeb_py.errors import DataError
from wayeb_py.parallel.health.exporter import MetricsFile, MetricsServer, registry_of


def test_prometheus_can_read_every_line(tmp_path: Path) -> None:
    view = a_view(tmp_path)
    text = generate_latest(registry_of(lambda: view)).decode()
    line = re.compile(r'^wayeb_[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"\})? -?(\d+(\.\d+)?(e[+-]?\d+)?|NaN|\+Inf)$')
    kinds: dict[str, str] = {}
    for one in text.splitlines():
        if one.startswith("# TYPE "):
            _, _, name, kind = one.split()
            assert name not in kinds, "the samples of a metric stand together"
            kinds[name] = kind
        elif not one.startswith("# HELP "):
            assert line.match(one), one
            name = re.split(r"[{ ]", one)[0]
            assert list(kinds)[-1] == name
            assert (kinds[name] == "counter") == name.endswith("_total")
    assert 'wayeb_events_total{source="a\\"b"} 98' in text
    assert 'wayeb_detections_total{pattern="Zoné"} 1' in text
    assert 'wayeb_bad_rows_total{reason="no time"} 2' in text
    assert 'wayeb_backpressure_ratio{source="1"} 0' in text
    assert "wayeb_state_bytes_per_entity 100" in text
    assert 'wayeb_strange_total{source="1"} 7' in text  # an unknown count is shown all the same


def test_metrics_are_served_on_loopback(tmp_path: Path) -> None:
    view = a_view(tmp_path)
    server = MetricsServer(0, lambda: view)
    try:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=DEADLINE_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert "wayeb_up 1" in answer.read().decode()
        with urllib.request.urlopen(server.url.replace("/metrics", "/view"), timeout=DEADLINE_S) as answer:
            assert json.loads(answer.read())["sums"]["events"]["1"] == 98
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "x", timeout=DEADLINE_S)
    finally:
        server.close()


def test_metrics_without_prometheus_client_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(DataError, match="needs prometheus-client") as told:
        MetricsServer(0, lambda: pytest.fail("nobody asks"))
    assert told.value.hint is not None
    assert "pip install 'wayeb-py[metrics]'" in told.value.hint


def test_a_port_that_is_taken_is_one_message() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DataError, match="--metrics 0 takes any port"):
            MetricsServer(taken.getsockname()[1], lambda: pytest.fail("nobody asks"))


def test_metrics_are_added_to_a_file_a_line_each(tmp_path: Path) -> None:
    view = a_view(tmp_path / "health")
    for _ in range(2):
        file = MetricsFile(tmp_path / "metrics.ndjson")
        file.write(view)
        file.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.ndjson").read_text().splitlines()]
    assert len(lines) == 2
    assert lines[0]["sources"]["1"]["offered"] == 20
    with pytest.raises(DataError, match="metrics cannot be written"):
        MetricsFile(tmp_path / "nowhere" / "metrics.ndjson")
