"""Maven coordinates become jars in a folder of this machine's cache: Spark's Kafka connector, which pyspark lacks.

Maven resolves and fetches them, from its configured repositories, once for each machine; the folder appears whole or
not at all, and a second process waits for the first.

*Not taken*: `spark.jars.packages`, which has Spark resolve the connector again at every start, and needs the network
for it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from wayeb_py.errors import DataError

CONNECTOR_VERSION = "4.2.0"  # the newest that is published; Spark 4.3 runs it

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>wayeb</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{more}</dependency>"
_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class MissingJarsError(DataError):
    """The jars are missing and cannot be fetched."""


def connector_jars() -> list[Path]:
    """What Spark must load for `format("kafka")`: give it as `spark.jars`, joined with commas."""
    wanted = [
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ]
    # The connector's other dependencies are Spark itself; and its description sends Maven to other repositories.
    return fetch_jars(f"spark-kafka-{CONNECTOR_VERSION}", wanted, with_theirs=False)


def fetch_jars(name: str, coordinates: Sequence[str], with_theirs: bool = True) -> list[Path]:
    """The jars of the coordinates, with their own dependencies."""
    folder = cache_folder() / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(f".{name}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _fetch_into(folder, coordinates, "" if with_theirs else _NOTHING_ELSE)
    return sorted(folder.glob("*.jar"))


def cache_folder() -> Path:
    """Where fetched files are kept: $WAYEB_CACHE, or `wayeb` in the user's cache."""
    given = os.environ.get("WAYEB_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wayeb"


def _fetch_into(folder: Path, coordinates: Sequence[str], more: str) -> None:
    maven = shutil.which("mvn")
    what = coordinates[0]
    if maven is None:
        raise MissingJarsError(f"{what} is fetched by Maven, and there is none here", hint="sudo apt-get install maven")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        dependencies = "".join(_DEPENDENCY.format(*coordinate.split(":"), more=more) for coordinate in coordinates)
        (Path(made) / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        command = [maven, "-B", "-q", "-f", f"{made}/pom.xml", _PLUGIN, f"-DoutputDirectory={made}/jars"]
        command.append("-DincludeScope=runtime")
        ran = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode != 0 or not (Path(made) / "jars").is_dir():
            raise MissingJarsError(
                f"Maven could not fetch {what}: {_told(ran.stdout)}", hint="is Maven Central reachable?"
            )
        os.rename(Path(made) / "jars", folder)


def _told(output: str) -> str:
    """The first error that Maven reports, without its colours and its advice."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    errors = re.findall(r"^\[ERROR\] (.+?)(?: -> \[Help.*)?$", plain, re.MULTILINE)
    return errors[0] if errors else "it does not say why"
