"""Google's store on loopback for tests: gcp-storage-emulator, in a process of its own, over HTTP as the real one is."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from types import TracebackType

READY_WITHIN_S = 60.0
_POLL_S = 0.05


class GcsServer:
    """A running server; `environment` is what a client needs to reach it, as Google's own tools take it."""

    def __enter__(self) -> GcsServer:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        words = ["start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gcp_storage_emulator", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("the emulator of Google's store did not start")
            time.sleep(_POLL_S)
        return self

    @property
    def environment(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.url}

    def make_bucket(self) -> str:
        """A new bucket's name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        request = urllib.request.Request(
            f"{self.url}/storage/v1/b?project=tests", data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request):
            return name

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/storage/v1/b?project=tests", timeout=5):
                return True
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
