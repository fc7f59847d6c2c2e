"""What ended a stream becomes its last line: what happened, and what to do about it.

Spark wraps an error of a task in text inside text, in two languages; the original error is inside, and is what a person
needs. All of the text goes to a file that the line names, for a reader who needs more.
"""

from __future__ import annotations

import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from wayeb_py.clock import SYSTEM
from wayeb_py.errors import DataError, PassingError, WayebError, visible, without_secrets
from wayeb_py.files.output.whole_file import MAKE_ROOM
from wayeb_py.parallel.health.log_lines import Form, LogLines

# A fragment of Spark's text, what happened, the remedy, and whether the fault may be gone at the next start; the first
# match holds.
_KNOWN = (
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full",
        MAKE_ROOM,
        True,
    ),
    (
        r"OutOfMemoryError|GC overhead limit",
        "Java ran out of memory",
        "give it more with --memory 4g, and start again; --max-events makes later batches smaller, not the one planned",
        False,
    ),
    (
        r"Python worker exited unexpectedly|EOFException.*PythonRunner|ExecutorLostFailure|Worker died",
        "a worker process was killed, by the system if memory was short",
        "look for it in the system's log; fewer events a batch (--max-events) need less memory; then start again",
        True,
    ),
    (
        r"Py4JNetworkError|Answer from Java side is empty",
        "Spark's Java process is gone: it was killed, by the system if memory was short",
        "start the stream again: it goes on where it was",
        True,
    ),
    (
        r"Connection to node .* (?:could not|was dis)|Broker transport failure|_ALL_BROKERS_DOWN|LEADER_NOT_AVAILABLE",
        "the Kafka broker cannot be reached",
        "check the address in --source and that the broker runs, then start again: it goes on where it was",
        True,
    ),
    (
        r"Permission denied: '?([^'\n]*)",
        "a file may not be read or written",
        "check the permissions of the source, the output and the checkpoint",
        False,
    ),
    (
        r"\(no cause message\)",  # the process that plans batches does not answer
        "a process of Spark's ended without a word: it was killed, by the system if memory was short",
        "start the stream again: it goes on where it was",
        True,
    ),
)
_ERROR_LINE = re.compile(
    r"^(?:Caused by: )?(?P<name>(?:[A-Za-z_][\w$]*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt))(?:: (?P<said>.*))?$"
)
_WRAPPERS = (
    "StreamingQueryException",
    "SparkException",
    "PythonException",
    "Py4JJavaError",
    "TaskAborted",
    "RemoteException",
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What ended a stream, what to do, and whether a second start may succeed: a `passing` fault lies neither in the
    patterns nor in the data, and a user need change nothing."""

    message: str
    hint: str | None = None
    passing: bool = False

    def line(self, log_file: Path | None = None) -> str:
        """All of it in one line."""
        parts = [self.message, *([f"({self.hint})"] if self.hint else [])]
        return visible(" ".join(parts) + (f"; details: {log_file}" if log_file is not None else ""))


def find_cause(error: BaseException) -> Cause:
    """The original error."""
    if isinstance(error, WayebError):
        return _told(str(error), isinstance(error, PassingError))
    if isinstance(error, KeyboardInterrupt):
        return Cause("interrupted", "start it again: it goes on where it was", passing=True)
    text = _text(error)
    # The connection to the JVM is what was lost: nothing else in the driver's thread keeps one.
    is_lost = isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError)
    # py4j says which call found no JVM, and nothing of what was wrong; a fault of the call itself comes with its trace.
    is_unanswered = type(error).__name__ == "Py4JError" and "Trace:" not in text
    if is_lost or is_unanswered or type(error).__name__ == "Py4JNetworkError":
        text += "\nPy4JNetworkError"
    ours = re.search(
        r"wayeb_py\.errors\.(\w+): (.+?)(?=\n\s*(?:at |\n|Traceback|During|Caused by:|\tat )|\Z)", text, re.S
    )
    if ours is not None:
        return _told(ours[2], ours[1] == PassingError.__name__)
    for pattern, message, hint, passing in _KNOWN:
        if re.search(pattern, text):
            return Cause(message, hint, passing)
    given_up = re.search(r"Job aborted due to stage failure: ([^\n]+)", text)
    if given_up is not None and _innermost(text) is None:
        return Cause(f"Spark gave up: {given_up[1]}", "start the stream again: it goes on where it was", passing=True)
    return Cause(f"unexpected error: {_innermost(text) or _first_line(text)}", None)


def as_error(error: BaseException) -> DataError:
    """The original error as an error of ours, whose remedy says which faults last."""
    cause = find_cause(error)
    if cause.passing:
        return PassingError(cause.message, hint=cause.hint or "start it again with the same --checkpoint: it goes on")
    return DataError(cause.message, hint=cause.hint or "a start repeats the batch: the cause has to be mended before")


def _text(error: BaseException) -> str:
    parts = [str(error)]
    cause = getattr(error, "cause", None)
    if isinstance(cause, str):
        parts.append(cause)
    seen, under = {id(error)}, error.__cause__
    while under is not None and id(under) not in seen:  # a cause may be its own
        seen.add(id(under))
        parts.append(str(under))
        under = under.__cause__
    return without_secrets("\n".join(parts))


def _told(text: str, passing: bool) -> Cause:
    """The message, the place and the hint of an error of ours, taken from its text."""
    message, place, hint = "", None, None
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("--> "):
            place = place or stripped[4:]
        elif stripped.startswith("= hint: "):
            hint = stripped[8:]
        elif not message and stripped:
            message = stripped
    return Cause(f"{message} [{place}]" if place else message, hint, passing)


def _innermost(text: str) -> str | None:
    """The message of the last error in a chain that is not only a wrapper; its name says nothing to a user."""
    found = None
    for line in text.splitlines():
        match = _ERROR_LINE.match(line.strip())
        if match is not None and match["name"].rpartition(".")[2] not in _WRAPPERS:
            found = match["said"] or "it did not say what"
    return found


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")


def keep_details(folder: Path, error: BaseException) -> Path | None:
    """Writes everything known about an error to a file of its own; None where nothing can be written."""
    path = folder / f"died-{SYSTEM.utc():%Y%m%dT%H%M%S}.log"
    text = without_secrets("".join(traceback.format_exception(error))) + "\n" + _text(error) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError:  # the disk may be the cause
        return None
    return path


def say_last(error: BaseException, folder: Path, form: Form = "text") -> Cause:
    """Says why a stream died, in one line on standard error; keeps the details in a file below the folder."""
    is_whole = isinstance(error, WayebError) and error.__cause__ is None
    details = None if is_whole else keep_details(folder, error)
    cause = find_cause(error)
    if form == "json":
        LogLines("json").tell("died", cause.message, "error", remedy=cause.hint, passing=cause.passing, details=details)
    else:
        print(cause.line(details), file=sys.stderr, flush=True)
    return cause
