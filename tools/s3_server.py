"""An S3 server on loopback for tests: moto's, in a process of its own, over HTTP as the real one is."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import urllib.request
import uuid
from types import TracebackType


class S3Server:
    """A running server; `environment` is what a client needs to reach it."""

    def __enter__(self) -> S3Server:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"Running on (http://\S+)", line):
                self.url = found[1]
                break
        else:
            raise RuntimeError("moto's server did not start")
        # It logs every request: without a reader the pipe would fill, and the server wait for ever.
        self._drain = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._drain.start()
        return self

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "a-key-for-tests",
            "AWS_SECRET_ACCESS_KEY": "a-secret-for-tests",
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self) -> str:
        """A new bucket's name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT")):
            return name

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._drain.join()
        if self._process.stderr is not None:
            self._process.stderr.close()
