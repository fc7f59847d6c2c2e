"""A real HDFS on this machine, for tests: a name node and a data node in one process, on loopback, gone when we are.

Hadoop's minicluster comes from Maven, once for each machine.

*Not taken*: a download of Hadoop's distribution, eight times as large; a container (needs a daemon and rights).
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from wayeb_py.parallel.spark.jars import fetch_jars
from wayeb_py.parallel.spark.session import find_java

HADOOP_VERSION = "3.4.2"
READY_WITHIN_S = 120.0
_POLL_S = 0.1


def hdfs_jars() -> list[Path]:
    """What `java -cp` needs to run a cluster."""
    hadoop = [f"org.apache.hadoop:hadoop-client-{part}:{HADOOP_VERSION}" for part in ("minicluster", "runtime")]
    # Java has dropped the first of the others, which Hadoop's web server needs.
    others = ["javax.xml.bind:jaxb-api:2.3.1", "org.slf4j:slf4j-simple:1.7.36"]
    return fetch_jars(f"hadoop-minicluster-{HADOOP_VERSION}", [*hadoop, *others])


class HdfsCluster:
    """A running cluster; `address` is where its root is, `web_address` the same by HTTP."""

    def __enter__(self) -> HdfsCluster:
        self._folder = tempfile.TemporaryDirectory(prefix="wayeb-hdfs-")
        with socket.socket() as web, socket.socket() as rpc:
            for one in (web, rpc):
                one.bind(("127.0.0.1", 0))
            self._web_port, self._rpc_port = web.getsockname()[1], rpc.getsockname()[1]
        jars = os.pathsep.join(str(jar) for jar in hdfs_jars())
        with open(f"{self._folder.name}/log", "wb") as log:
            self._process = subprocess.Popen(
                [
                    find_java() or "java", "-Xmx384m", "-XX:TieredStopAtLevel=1",
                    f"-Dtest.build.data={self._folder.name}/data", "-cp", jars,
                    "org.apache.hadoop.test.MiniDFSClusterManager",
                    "-datanodes", "1", "-httpport", str(self._web_port), "-nnport", str(self._rpc_port), "-format",
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder.name,
            )  # fmt: skip
        end = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if time.monotonic() > end:
                raise RuntimeError(f"HDFS did not answer within {READY_WITHIN_S:g} s")
            time.sleep(_POLL_S)
        return self

    @property
    def address(self) -> str:
        return f"hdfs://127.0.0.1:{self._rpc_port}"

    @property
    def web_address(self) -> str:
        return f"webhdfs://127.0.0.1:{self._web_port}"

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(Path(self._folder.name, "log").read_text()[-2000:])
        try:
            url = f"http://127.0.0.1:{self._web_port}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return b'"NumLiveDataNodes" : 1' in answer.read()
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
