"""Fetches the libraries of peers that live in a JVM, and compiles their side of the measurement.

Libraries come from Maven Central and are kept below benchmarks/data; java/ is compiled when it has changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.inputs.fleet_events import FOLDER
from benchmarks.peers.peer import HERE, MissingError, java_tool

KEPT = FOLDER / "peers"
JAVA_OPTIONS = ("-Xmx3g", "-XX:+UseParallelGC")  # the collector for throughput, from which all of them gain

_POM = """<project><modelVersion>4.0.0</modelVersion><groupId>wayeb</groupId><artifactId>{name}</artifactId>
<version>1</version><dependencies>{dependencies}</dependencies></project>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def from_maven(name: str, artefacts: tuple[str, ...], alone: bool = False) -> str:
    """The class path of artefacts `group:artefact:version` and, unless `alone`, of all their dependencies."""
    folder = KEPT / name
    stamp = folder / "artefacts"
    if not stamp.exists() or stamp.read_text() != " ".join(artefacts):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        dependencies = "".join(
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>".format(
                *artefact.split(":"), _ALONE if alone else ""
            )
            for artefact in artefacts
        )
        (folder / "pom.xml").write_text(_POM.format(name=name, dependencies=dependencies))
        command = [java_tool("mvn"), "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        _run(command, folder, f"Maven Central does not give {artefacts[0]}")
        stamp.write_text(" ".join(artefacts))
    return str(folder / "lib" / "*")


def compiled(name: str, class_path: str, *sources: str) -> str:
    """The class path with the classes of these files of java/."""
    files = [HERE / "java" / f"{source}.java" for source in ("Event", "Answering", *sources)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = KEPT / f"{name}-classes-{digest}"
    if not folder.exists():
        unfinished = folder.with_suffix(".tmp")
        command = [java_tool("javac"), "-proc:none", "-cp", class_path, "-d", str(unfinished), *map(str, files)]
        _run(command, HERE, "its Java does not compile")
        unfinished.rename(folder)
    return f"{folder}{os.pathsep}{class_path}"


def _run(command: list[str], folder: Path, fault: str) -> None:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ended.returncode:
        said = [line for line in (ended.stdout + ended.stderr).splitlines() if "error" in line.lower()]
        raise MissingError(f"{fault}: {said[0][:300] if said else 'no reason given'}")
