"""A store that fails while it is asked: the message and the exit code, and that nothing half done counts.

The server on loopback answers every request with the same fault. That is an S3 server, and Azure's, as far as a client
can tell before it gives up.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.ended_command import Wayeb
from wayeb_py.cli.exit_codes import DATA_FAULT, PASSING_FAULT
from wayeb_py.errors import DataError, PassingError, without_secrets
from wayeb_py.files.discover import EventFile
from wayeb_py.files.formats.unreadable import unreadable_file
from wayeb_py.files.stores import StorePath, store_fault

PATTERNS = "stream s { key key  time ts in s }\npattern Fast := (speed > 50)\n"
EVENTS = pa.table({"key": ["a", "b"], "ts": [0, 60], "speed": [60.0, 70.0]})
ADDRESS = StorePath.parse("s3://fleet/e.parquet")


@contextmanager
def failing_server(status: int) -> Iterator[str]:
    """The address of a server that answers everything with one status."""

    class Failing(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 (names of http.server)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [500, 503])
def test_a_store_that_fails_is_no_fault_of_the_file_and_may_pass(
    status: int, tmp_path: Path, wayeb: Wayeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    pq.write_table(EVENTS, tmp_path / "e.parquet")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key-for-tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-for-tests")
    with failing_server(status) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        for words in (
            ("run", "p.sre", "--data", str(ADDRESS), "--out", "x.csv"),
            ("run", "p.sre", "--data", "e.parquet", "--out", str(ADDRESS)),
            ("run", "p.sre", "--data", "delta:s3://fleet/table", "--out", "x.csv"),
            ("run", "p.sre", "--data", "e.parquet", "--out", "delta:s3://fleet/table"),
            ("stream", "p.sre", "--source", "s3://fleet/in", "--out", "found", "--checkpoint", "state", "--once"),
        ):
            ended = wayeb(*words)
            assert ended.code == PASSING_FAULT, (words, ended.err)
            assert "the store fails at present" in ended.err
            assert "give the same command again" in ended.err
            assert "write the file anew" not in ended.err
            assert "a-secret-for-tests" not in ended.err
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate", "fails at present"),
        ("AWS Error INTERNAL_FAILURE during GetObject operation: We encountered an internal error", "fails at present"),
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", "fails at present"),
        ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted in ReadObject)", "fails at present"),
        ("Read failed. Azure Error: [ServerBusy] 503 The server is busy.", "fails at present"),
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached", "not answer"),
    ],
)
def test_a_fault_in_the_middle_of_a_file_is_the_stores(said: str, told: str) -> None:
    error = unreadable_file(EventFile(str(ADDRESS), "parquet"), OSError(said))
    assert isinstance(error, PassingError)
    assert told in error.message
    assert str(ADDRESS) in str(error)


def test_an_object_that_was_removed_in_the_middle_is_not_there() -> None:
    said = "AWS Error NO_SUCH_KEY during GetObject operation: The specified key does not exist."
    error = unreadable_file(EventFile(str(ADDRESS), "parquet"), OSError(said))
    assert (error.message, type(error)) == ("there is no such file", DataError)


def test_damage_in_an_object_stays_a_fault_of_the_object() -> None:
    error = unreadable_file(EventFile(str(ADDRESS), "parquet"), OSError("Couldn't deserialize thrift: bad"))
    assert not isinstance(error, PassingError)
    assert error.hint == "write the file anew, or take it out of the data"


def test_access_that_is_refused_does_not_pass(
    tmp_path: Path, wayeb: Wayeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    with failing_server(403) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        ended = wayeb("run", "p.sre", "--data", str(ADDRESS), "--out", "x.csv")
    assert ended.code == DATA_FAULT
    assert "refuses access" in ended.err


def test_a_signature_in_an_address_of_azures_is_not_told(
    tmp_path: Path, wayeb: Wayeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.sre").write_text(PATTERNS)
    with failing_server(500) as url:
        given = f"AccountName=fleet;SharedAccessSignature=sv=2022&sig=c2VjcmV0;BlobEndpoint={url}/fleet"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", given)
        ended = wayeb("run", "p.sre", "--data", "abfs://c@fleet.dfs.core.windows.net/x.csv", "--out", "x.csv")
    assert ended.code == PASSING_FAULT
    assert f"{url}/fleet/c" in ended.err
    assert "c2VjcmV0" not in ended.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET 'https://h/c/x?sig=abc&sv=1' failed", "GET 'https://h/c/x' failed"),
        ("Could not parse postgresql://u:p@h/db", "Could not parse postgresql://h/db"),
        ("abfs://c@fleet.dfs.core.windows.net/x: why?", "abfs://c@fleet.dfs.core.windows.net/x: why?"),
        ("http://127.0.0.1:9/x is not there", "http://127.0.0.1:9/x is not there"),
    ],
)
def test_what_gives_access_is_taken_out_of_texts(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_an_error_of_the_store_keeps_no_signature() -> None:
    error = store_fault(StorePath.parse("abfs://c@fleet.dfs.core.windows.net/x"), "read", OSError("https://h/x?sig=abc"))
    assert "abc" not in str(error)
