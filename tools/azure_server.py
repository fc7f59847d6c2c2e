"""Azure's blob store on loopback for tests: Microsoft's emulator Azurite, which npm fetches once for each machine.

It has a flat namespace, as accounts have by default, and no hierarchical one.

*Not taken*: its newest release, which needs a newer Node.js than Debian and Ubuntu have. PyPI has no emulator of it.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType

from wayeb_py.parallel.spark.jars import cache_folder

VERSION = "3.35.0"
ACCOUNT = "fleet"
READY_WITHIN_S = 60.0
_POLL_S = 0.05
_MAIN = "node_modules/azurite/dist/src/blob/main.js"


def fetch_azurite() -> Path | None:
    """The emulator's program; None where there is no npm."""
    folder = cache_folder() / f"azurite-{VERSION}"
    if not (folder / _MAIN).exists():
        npm = shutil.which("npm")
        if npm is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), f"azurite@{VERSION}"]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return folder / _MAIN


class AzureServer:
    """A running server; `environment` is what a client needs to reach it, as Azure's own tools take it."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self.key = base64.b64encode(os.urandom(32)).decode()

    def __enter__(self) -> AzureServer:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        words = ["--blobHost", "127.0.0.1", "--blobPort", str(self._port), "--inMemoryPersistence"]
        self._process = subprocess.Popen(
            ["node", str(self._program), *words, "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
            env=os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.key}"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        end = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("the emulator of Azure's store did not start")
            time.sleep(_POLL_S)
        return self

    @property
    def environment(self) -> dict[str, str]:
        parts = {
            "DefaultEndpointsProtocol": "http", "AccountName": ACCOUNT, "AccountKey": self.key,
            "BlobEndpoint": f"http://127.0.0.1:{self._port}/{ACCOUNT}",
        }  # fmt: skip
        return {"AZURE_STORAGE_CONNECTION_STRING": ";".join(f"{name}={value}" for name, value in parts.items())}

    def make_container(self) -> str:
        """A new container's address."""
        from pyarrow import fs

        name, place = f"container-{uuid.uuid4().hex[:12]}", f"127.0.0.1:{self._port}"
        fs.AzureFileSystem(
            ACCOUNT, account_key=self.key, blob_storage_authority=place, dfs_storage_authority=place,
            blob_storage_scheme="http", dfs_storage_scheme="http",
        ).create_dir(name)  # fmt: skip
        return f"abfs://{name}@{ACCOUNT}.dfs.core.windows.net"

    def _is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
            return True
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
