"""Before the first batch, writes to the checkpoint the functions, the types of the events and the version of the
patterns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa

from wayeb_py.errors import DamagedError, DataError
from wayeb_py.files.projection import Wanted
from wayeb_py.parallel.logs.log import Log, NoEventsError
from wayeb_py.parallel.recovery.checkpoint import Checkpoint, Manifest, changes, digest_of, fingerprints
from wayeb_py.parallel.recovery.file_owner import require_private
from wayeb_py.parallel.recovery.pattern_versions import keep_version, load_schema, refuse_damaged, this_release
from wayeb_py.parallel.wire.event_schemas import by_stream, has_several, join_streams, wanted_by_stream
from wayeb_py.patterns import Patterns

POLL_S = 0.25
NO_EVENTS_S = 5.0  # pause after a look at everything found nothing, since the next look costs as much


def mind_functions(patterns: Patterns, checkpoint: Checkpoint, no_pickle: bool, say: Callable[[str], None]) -> None:
    """Says that functions are kept as code; DataError where that is refused, or where another user could exchange
    it."""
    if not patterns.functions:
        return
    named = ", ".join(f"`{name}`" for name in sorted(patterns.functions))
    if no_pickle:
        raise DataError(
            f"a checkpoint can keep the functions {named} only as a pickle, and --no-pickle refuses these",
            hint="start without it if you trust anyone who can write to the checkpoint, or do without --functions",
        )
    require_private(checkpoint.folder)
    say(f"the checkpoint keeps {named} as a pickle: anyone who can write to {checkpoint.name} can run code here")


def find_schema(
    before: pa.Schema, patterns: Patterns, log: Log, once: bool, stop: threading.Event, say: Callable[[str], None]
) -> pa.Schema | None:
    """The types of the events: those of the version before, else of a sample; None if there is nothing to sample."""
    if not has_several(patterns):
        return _extend_schema(before, patterns.wanted, log, once, stop, say)
    wanted = wanted_by_stream(patterns)
    schemas = extend_schemas(by_stream(patterns, before), wanted, log.of_stream, once, stop, say)
    return None if schemas is None else join_streams(patterns, schemas)


def extend_schemas(
    before: Mapping[str, pa.Schema],
    wanted: Mapping[str, Wanted],
    log_of: Callable[[str], Log],
    once: bool,
    stop: threading.Event,
    say: Callable[[str], None],
) -> dict[str, pa.Schema] | None:
    """The types of every stream, the known ones with those of its wanted columns among them; None if a stream has
    nothing to sample."""
    found: dict[str, pa.Schema] = {}
    for name, own in wanted.items():
        schema = _extend_schema(before[name], own, log_of(name), once, stop, say)
        if schema is None:
            return None
        found[name] = schema
    return found


def _extend_schema(
    before: pa.Schema, wanted: Wanted, log: Log, once: bool, stop: threading.Event, say: Callable[[str], None]
) -> pa.Schema | None:
    """The types that are known, and those of the wanted columns among them; None if there is nothing to sample."""
    if set(wanted.names) <= set(before.names):
        return before
    sampled = _sample(log, wanted, once, stop, say)
    if sampled is None:
        return None
    return pa.schema([*before, *(sampled.field(name) for name in wanted.names if name not in before.names)])


def _sample(
    log: Log, wanted: Wanted, once: bool, stop: threading.Event, say: Callable[[str], None]
) -> pa.Schema | None:
    """The types of the first events; waits for them unless only existing events are read, or no more can come."""
    told: set[float] = set()
    if once:
        log.settle()
    while True:
        once = once or log.ends() is not None  # asked first: what comes before the end is there by then
        try:
            sampled = log.schema(wanted)
            if sampled is not None or once:
                return sampled
            why, again_s = f"{log.name} is empty", POLL_S
        except NoEventsError as error:
            if once:
                raise
            why, again_s = f"{error.file or log.name}: {error.message}", NO_EVENTS_S
        if again_s not in told:
            say(f"{why}: waiting for the first events, whose types tell how to read the others")
            told.add(again_s)
        if stop.wait(again_s):
            log.hang_up()
            with suppress(NoEventsError):
                return None if log.keeps else log.schema(wanted)  # what arrived meanwhile would be lost
            return None


def last_schema(checkpoint: Checkpoint, manifest: Manifest) -> pa.Schema:
    if not manifest.pattern_versions:
        return pa.schema([])
    return load_schema(checkpoint.folder / "eras", len(manifest.pattern_versions) - 1, manifest.stream_id)


def begin_version(
    checkpoint: Checkpoint,
    manifest: Manifest,
    patterns: Patterns,
    groups: Sequence[Sequence[str]],
    schema: pa.Schema,
    say: Callable[[str], None],
) -> None:
    """Keeps the patterns, unless they are those of the last version, and reports what is new about them."""
    last = manifest.pattern_versions[-1] if manifest.pattern_versions else None
    digest, by = digest_of(patterns, groups, schema), this_release()
    folder, stream_id = checkpoint.folder / "eras", manifest.stream_id
    if last is not None and last["digest"] == digest and last["by"] == by:
        number = len(manifest.pattern_versions) - 1
        try:
            refuse_damaged(folder, number, stream_id)
        except DamagedError as error:
            say(f"{error.message}: they are those of this run, and are written again")
            keep_version(folder, number, patterns, groups, schema, stream_id)
        checkpoint.write(manifest)
        return
    keep_version(folder, len(manifest.pattern_versions), patterns, groups, schema, stream_id)
    if last is not None and last["digest"] == digest:
        was, now = (f"{one['release']} on Python {one['python']}" for one in (last["by"], by))
        say(f"the last run was of release {was}, and this is {now}: the patterns keep their state")
    elif last is not None:
        what = changes(last, patterns)
        said = f"({what})" if what else "(knowledge or settings)"
        say(f"the patterns are not those of the last run {said}: unchanged ones keep their state")
    manifest.pattern_versions.append({"digest": digest, "patterns": fingerprints(patterns), "by": by})
    checkpoint.write(manifest)
