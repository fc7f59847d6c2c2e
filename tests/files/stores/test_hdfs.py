"""HDFS by its own protocol: a real name node and data node on loopback (Hadoop's minicluster).

What every store does is in `test_stores.py`; here is what this one does otherwise: its errors, what a kill leaves, and
a process that forks.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.ended_command import Wayeb
from tools.hdfs.cluster import HdfsCluster
from wayeb_py.errors import DataError
from wayeb_py.files import store_clients
from wayeb_py.files.discover import find_files
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.files.stores import StorePath
from wayeb_py.parallel.batch.output_prefix import OutputPrefix


def test_a_file_that_is_not_there_and_a_file_that_is_no_folder(hdfs: StorePath, tmp_path: Path, wayeb: Wayeb) -> None:
    (tmp_path / "p.sre").write_text("stream s { key key  time ts }\npattern Fast := (speed > 50)\n")
    ended = wayeb("run", "p.sre", "--data", str(hdfs / "none.csv"), "--out", "x.csv")
    assert (ended.code, "there is no such file or folder" in ended.err) == (3, True)
    write_whole(hdfs / "x.csv", b"x")
    assert not (hdfs / "x.csv/y").exists()
    assert [*(hdfs / "x.csv").below()] == []
    with pytest.raises(DataError, match="there is no such file"):
        (hdfs / "none").read_bytes()


def test_the_http_interface_leads_to_the_same_files(hdfs_cluster: HdfsCluster, hdfs: StorePath) -> None:
    by_http = StorePath.parse(f"{hdfs_cluster.web_address}/{hdfs.key}")
    for content in (b"first", b"again"):
        write_whole(by_http / "in/x.csv", content)
        assert (hdfs / "in/x.csv").read_bytes() == (by_http / "in/x.csv").read_bytes() == content
    (by_http / "in/x.csv").move_to(by_http / "out/y.csv")
    for root in (by_http, hdfs):
        assert [path.key for path, _ in root.below()] == [hdfs.key / "out/y.csv"]
    (by_http / "out").remove_folder()
    assert not (hdfs / "out").exists()


@pytest.mark.parametrize("authority", ["127.0.0.1:1", "no-such-host.invalid:8020"])
def test_a_name_node_that_does_not_answer_is_named_within_seconds(authority: str) -> None:
    start = time.monotonic()
    with pytest.raises(DataError, match="the store does not answer") as caught:
        StorePath.parse(f"hdfs://{authority}/x.csv").exists()
    assert "HADOOP_CONF_DIR" in (caught.value.hint or "")
    assert time.monotonic() - start < 15


def test_a_name_service_needs_hadoops_configuration() -> None:
    with pytest.raises(DataError, match=r"no name node has this name in Hadoop's configuration \(HADOOP_CONF_DIR\)"):
        find_files(["hdfs://nameservice/x.csv"])


def test_a_name_service_leads_to_the_name_node_of_hadoops_configuration(
    hdfs: StorePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(hdfs / "x.csv", b"found")
    settings = {
        "dfs.nameservices": "fleet", "dfs.ha.namenodes.fleet": "one",
        "dfs.namenode.rpc-address.fleet.one": hdfs.root.removeprefix("hdfs://"),
    }  # fmt: skip
    rows = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(rows)}</configuration>")
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert StorePath.parse(f"hdfs://fleet/{hdfs.key}/x.csv").read_bytes() == b"found"


def test_another_user_may_read_and_not_write(hdfs: StorePath, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(hdfs / "x.csv", b"mine")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    monkeypatch.setattr(store_clients, "_clients", {})
    assert (hdfs / "x.csv").read_bytes() == b"mine"
    with pytest.raises(DataError, match="Permission denied: user=somebody-else, access=WRITE") as caught:
        write_whole(hdfs / "x.csv", b"yours")
    assert "HADOOP_USER_NAME" in (caught.value.hint or "")
    assert "\n" not in caught.value.message
    with pytest.raises(DataError, match="Permission denied"):
        (hdfs / "x.csv").unlink()


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "needs the package hdfs-native"),
        ({"HADOOP_HOME": "/no/hadoop"}, "the library of the installed Hadoop is not found"),
    ],
)
def test_without_the_package_the_message_says_what_to_install(
    variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    for name in ("HADOOP_HOME", "ARROW_LIBHDFS_DIR", "CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DataError, match=told) as caught:
        find_files(["hdfs://localhost:9/x.csv"])
    assert "pip install 'wayeb-py[hdfs]'" in (caught.value.hint or "")


KILLED = """
import sys
from wayeb_py.files.stores import StorePath

class Slow:
    def seek(self, place): self.n_left = 3
    def read(self, size):
        self.n_left -= 1
        if self.n_left == 0:
            print("half way", flush=True)
            sys.stdin.read()
        return b"new" * 100_000

StorePath.parse(sys.argv[1]).upload(Slow())
"""


def test_what_a_killed_upload_leaves_is_no_file_and_stops_nobody(hdfs: StorePath) -> None:
    out = OutputPrefix(hdfs / "out")
    manifest = hdfs / "out/_wayeb.json"
    words = [sys.executable, "-c", KILLED, str(manifest)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half way\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not manifest.exists()
    assert [*(hdfs / "out").below()] == []
    assert [*(hdfs / "out/*").matching()] == []
    out = OutputPrefix(hdfs / "out")
    write_whole(out.open() / "part-00000.parquet", b"whole")
    out.commit({"part-00000.parquet": 1}, {})
    out.discard()
    assert [path.name for path, _ in (hdfs / "out").below()] == ["_wayeb.json", "part-00000.parquet"]
    assert not out.staging.exists()


def test_a_forked_process_is_told_that_it_cannot_use_hdfs_and_ends(hdfs: StorePath) -> None:
    write_whole(hdfs / "x.csv", b"shared")
    script = (
        "import os, sys\nfrom wayeb_py.errors import DataError\nfrom wayeb_py.files.stores import StorePath\n"
        "path = StorePath.parse(sys.argv[1])\npath.read_bytes()\nchild = os.fork()\n"
        "try: path.read_bytes()\nexcept DataError as error: print(error)\n"
        "if child: sys.exit(os.waitpid(child, 0)[1])\n"
    )
    words = [sys.executable, "-c", script, str(hdfs / "x.csv")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("a process that was forked from one that uses HDFS cannot use it")
