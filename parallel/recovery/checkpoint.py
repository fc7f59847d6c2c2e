"""A checkpoint folder says what a stream is, so that a restart continues the same one, or says why it cannot.

    stream.json   source, key and time, scheme, where reading began, versions of patterns      lock    one run at a time
    spark/        Spark's own: offsets and commits of batches                                 stop    tells a run to end
    batches.ndjson   the same and the manifest again (`ledger`), to make one from the other (`repair`)
    snapshots/    states by group, partition and point        eras/   patterns by version     files.ndjson, aside/, …
    before/       what a restart without state gives up, until its own stream has begun

Patterns and knowledge may change between two runs: that begins a version. The facts that decide which events there are
and to whom they belong (source, key, time, scheme, groups) may not.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from wayeb_py.errors import DataError
from wayeb_py.files.folder_lock import hold_folder
from wayeb_py.files.output.whole_file import write_whole
from wayeb_py.parallel.durable.sealed_files import seal, unseal
from wayeb_py.parallel.logs.kafka_topic import without_servers
from wayeb_py.parallel.logs.log import Offsets
from wayeb_py.parallel.recovery.ledger import FILE as LEDGER
from wayeb_py.parallel.recovery.ledger import read_ledger
from wayeb_py.parallel.recovery.run_objects import RunObjects
from wayeb_py.patterns import Patterns
from wayeb_py.stored_patterns import fact_files

VERSION = 2  # the version of this file and of the offsets below spark/
_STORED_NAMES = {"pattern_versions": "eras"}  # where the file has another name than we do
Restart = Literal["beginning", "now"]  # without any state: everything again, or only what comes from here on
_CHOICE = (
    "go on with what it was started with, name another --checkpoint, or begin anew with this one: --restart beginning "
    "(reads everything again) or --restart now (only what comes from now on); either gives up its state"
)


@dataclass(slots=True)
class Manifest:
    """What `stream.json` holds."""

    stream_id: str
    source: str
    key: str | None
    time: str | None
    time_unit: str | None
    episodes: bool
    spread: dict[str, Any] = field(default_factory=dict)  # scheme, shards, groups: what the state is divided by
    origin: Offsets = field(default_factory=dict)  # where reading began
    pattern_versions: list[dict[str, Any]] = field(default_factory=list)  # digest, fingerprints by name, which release
    identity: dict[str, str] = field(default_factory=dict)  # what distinguishes the source from others of its name
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """The written form: every name as it is here, except `eras`, which older releases read as well."""
        facts = asdict(self)
        return {_STORED_NAMES.get(name, name): value for name, value in facts.items()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Manifest:
        """The manifest of a JSON object; TypeError where something is missing or unknown."""
        names = {stored: name for name, stored in _STORED_NAMES.items()}
        return cls(**{names.get(name, name): value for name, value in facts.items()})


class Checkpoint:
    """The folder, held by one run at a time; a `restart` discards what it holds once the new stream has begun."""

    is_copy = False  # whether the folder is this machine's copy of what is elsewhere

    def __init__(self, folder: str | os.PathLike[str], restart: Restart | None = None) -> None:
        self.folder, self.restart = Path(folder).absolute(), restart
        self.was_mended = False  # whether the manifest came from its copy
        self._lock = hold_folder(self.folder, "stream", "checkpoint")
        self.stop_file.unlink(missing_ok=True)
        for folder in (self.folder, self.folder / "eras", self.folder / "health"):
            for left in folder.glob(".*.tmp"):  # left by a run that was killed
                left.unlink(missing_ok=True)
        self._put_back()
        if restart is not None:
            self._put_away()

    @property
    def name(self) -> str:
        """Where a user has it."""
        return str(self.folder)

    @property
    def spark_folder(self) -> Path:
        return self.folder / "spark"

    @property
    def stop_file(self) -> Path:
        """While it exists no further batch is planned."""
        return self.folder / "stop"

    @property
    def journal(self) -> Path:
        return self.folder / "files.ndjson"

    def read(self) -> Manifest | None:
        """The manifest of the stream in this folder; None if there is none."""
        path = self.folder / "stream.json"
        damage: Exception | None = None
        try:
            facts = unseal(path.read_bytes(), must=False)
            version = facts["version"]
            manifest = Manifest.from_json(facts) if version == VERSION else None
        except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
            damage = error
        if damage is not None:
            copy = read_ledger(self.folder / LEDGER).manifest
            if copy is not None:  # the copy is sealed
                self.was_mended = True
                version = copy["version"]
                manifest = Manifest.from_json(copy) if version == VERSION else None
            elif not isinstance(damage, FileNotFoundError):
                raise DataError(f"the checkpoint cannot be read: {damage}", str(path), hint=_CHOICE) from damage
            elif self.spark_folder.exists():
                raise DataError("this is a checkpoint, but not one of wayeb", str(self.folder), hint=_CHOICE) from None
            else:
                return None
        if manifest is None:
            raise DataError(
                f"the checkpoint has version {version}, and this release reads version {VERSION}", str(path),
                hint=_CHOICE,
            )  # fmt: skip
        return manifest

    def write(self, manifest: Manifest) -> None:
        write_whole(self.folder / "stream.json", seal(json.dumps(manifest.to_json(), indent=2)).encode())
        shutil.rmtree(self._before, ignore_errors=True)

    @property
    def _before(self) -> Path:
        return self.folder / "before"

    def _put_away(self) -> None:
        """Moves everything but rows set aside out of the way; the manifest first: half a checkpoint is none."""
        self._before.mkdir()
        for entry in sorted(self.folder.iterdir(), key=lambda entry: entry.name != "stream.json"):
            if entry.name not in ("aside", "lock", "before"):
                entry.rename(self._before / entry.name)

    def _put_back(self) -> None:
        """Puts everything back after a restart that never began its own stream, or was killed meanwhile; the manifest
        last."""
        if not self._before.exists():
            return
        if not (self.folder / "stream.json").exists():
            for entry in sorted(self._before.iterdir(), key=lambda entry: entry.name == "stream.json"):
                _remove(self.folder / entry.name)
                entry.rename(self.folder / entry.name)
        shutil.rmtree(self._before)

    def share(self, as_objects: bool) -> RunObjects | None:
        """The objects in which tasks keep states, if not in the folder; `as_objects` says that they need some."""
        return None

    def keep(self) -> None:
        """Called when the plan of a batch is on the disk, and before its output is written; and at the end."""

    def refuse_taken(self) -> None:
        """Raises PassingError where another run has taken the checkpoint over: what fails then, may fail for that."""

    def close(self) -> None:
        os.close(self._lock)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def begin(source: str, patterns: Patterns, episodes: bool, identity: Mapping[str, str] = {}) -> Manifest:
    """The manifest of a stream that begins now."""
    stream = patterns.meaning.stream
    identity = dict(identity)
    if len(patterns.meaning.streams) > 1:
        for name, part in patterns.by_stream.items():
            facts = (part.stream.key, part.stream.time, part.stream.time_unit)
            identity[f"the stream {name}"] = ", ".join(str(fact) for fact in facts if fact is not None)
    return Manifest(
        secrets.token_hex(4), source, stream.key, stream.time, stream.time_unit, episodes, identity=identity
    )


def refuse_other(known: Manifest, now: Manifest, folder: Path) -> None:
    """Raises DataError, all differences in one message, if the checkpoint is that of another stream."""
    same_source = without_servers(known.source) == without_servers(now.source)
    differences = [
        f"{what} was {before}, and is {after}"
        for what, before, after in (
            ("the source", known.source, known.source if same_source else now.source),
            *((what, before, now.identity.get(what, before)) for what, before in known.identity.items()),
            ("the key", known.key, now.key),
            ("the time", known.time, now.time),
            ("the time's unit", known.time_unit, now.time_unit),
            ("--episodes", known.episodes, now.episodes),
        )
        if before != after
    ]
    if differences:
        raise DataError(f"this checkpoint is of another stream: {'; '.join(differences)}", str(folder), hint=_CHOICE)


def digest_of(patterns: Patterns, groups: Sequence[Sequence[str]], schema: pa.Schema) -> str:
    """A digest that identifies a version: patterns, how they run, and the files of their knowledge."""
    digest = hashlib.sha256()
    stream = patterns.meaning.stream
    facts = (
        [(p.name, p.fingerprint, list(p.emit)) for p in patterns.compiled],
        (str(stream.lateness_s), str(stream.forget_after_s), stream.dedupe, stream.clean, stream.order),
        stream.position, patterns.longest, groups, schema.to_string(),
    )  # fmt: skip
    digest.update(json.dumps(facts, default=str).encode())
    knowledge = patterns.knowledge
    paths = {name: knowledge.path_of(known) for name, known in knowledge.declared.items()}
    paths |= {name: knowledge.path_of(lookup) for name, lookup in knowledge.lookups.items()}
    if len(patterns.meaning.streams) > 1:
        digest.update(repr(patterns.meaning.streams).encode())
    if patterns.clocked:
        digest.update(repr([pattern.pair for pattern in patterns.meaning.patterns]).encode())
        digest.update(repr(_rules(patterns)).encode())
        paths |= {f"facts {facts.name}": path for facts, path in fact_files(patterns.meaning)}
    for name, path in paths.items():
        digest.update(name.encode())
        digest.update(path.read_bytes() if path.is_file() else b"")
    for name in sorted(patterns.functions):
        from pyspark import cloudpickle

        digest.update(cloudpickle.dumps(patterns.functions[name].function))
    return digest.hexdigest()[:16]


def fingerprints(patterns: Patterns) -> dict[str, str]:
    """What each pattern and rule means, as a digest, by its name."""
    return {pattern.name: pattern.fingerprint for pattern in patterns.compiled} | _rules(patterns)


def _rules(patterns: Patterns) -> dict[str, str]:
    rules = patterns.meaning.rules
    return {rule.name: hashlib.sha256(repr(rule).encode()).hexdigest()[:16] for rule in rules}


def changes(before: dict[str, Any], patterns: Patterns) -> str | None:
    """How the patterns differ from those of a version, in words; None if only knowledge or settings differ."""
    known: dict[str, str] = before["patterns"]
    now = fingerprints(patterns)
    words = {
        "new": sorted(set(now) - set(known)),
        "changed": sorted(name for name in now if name in known and now[name] != known[name]),
        "gone": sorted(set(known) - set(now)),
    }
    said = [f"{word}: {', '.join(names)}" for word, names in words.items() if names]
    return "; ".join(said) or None
