"""A file that cannot be read, or is not what its name says, becomes a message: the fault, and a remedy.

Input files are not trusted. The reader checks what a decoder makes of such bytes before compiled code follows an offset
or an index in it: Arrow's decoders leave indices into a dictionary, offsets of texts and the encoding of texts as the
file has them. The checks cost some hundredths of the time of reading.

*Not taken*: catching every exception, which would call a fault of ours damage in the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from wayeb_py.errors import DataError
from wayeb_py.files.discover import EventFile
from wayeb_py.files.stores import StorePath, is_address, store_fault

# What decoders raise for malformed bytes, sometimes by way of Python's own errors.
DECODING_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
SHOWN_CHARACTERS = 200


@contextmanager
def reading(file: EventFile) -> Iterator[None]:
    """Turns what a decoder raises into the error that names the file."""
    try:
        yield
    except DECODING_ERRORS as error:
        raise unreadable_file(file, error) from error


def unreadable_file(file: EventFile, error: BaseException) -> DataError:
    """The error for a file that cannot be read, or is not what its name says; where a store does not give it, the
    store's."""
    if isinstance(error, OSError) and is_address(file.path) and _is_of_a_store(error):
        return store_fault(StorePath.parse(file.path), "read", error)
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return DataError(f"cannot be read: {os.strerror(error.errno)}", file.path, hint=_OS_HINT)
    return DataError(f"cannot be read as {file.format}: {_reason(error)}", file.path, hint=_HINT)


def is_of_the_system(error: DataError, cause: BaseException | None = None) -> bool:
    """Whether a disk, a network, a store or a permission keeps a file from being read, and not its content."""
    cause = cause or error.__cause__
    return isinstance(cause, OSError) and (cause.errno is not None or _is_of_a_store(cause))


def _is_of_a_store(cause: OSError) -> bool:
    """Whether the client of a store raised it: Arrow's say so in the text, others by a class of their own. What a
    decoder says of damaged bytes is a plain OSError too."""
    return type(cause) is not OSError or _STORES.search(str(cause)) is not None


_STORES = re.compile("AWS Error|Azure Error|google::cloud")


_OS_HINT = "see that the file is there and may be read"
_HINT = "write the file anew, or take it out of the data"


def _reason(error: BaseException) -> str:
    """What a decoder says, in one line that a user can read; names of errors mean nothing to a user."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    if isinstance(error, UnicodeError):
        return "a text in it is not UTF-8"
    text = next(iter(str(error).splitlines()), "") if isinstance(error, pa.ArrowException | OSError) else ""
    if not text:
        return "what it holds does not fit together"
    if "thrift" in text.lower():
        return "its footer, or the head of a page, is damaged"
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return shown[:SHOWN_CHARACTERS]


def require_sound(columns: Iterable[pa.Array]) -> None:
    """Raises ArrowInvalid where following a column's offsets or indices would lead out of it."""
    for column in columns:
        if not pt.is_dictionary(column.type):
            column.validate(full=True)
            continue
        column.validate()
        column.dictionary.validate(full=True)
        bounds = pc.min_max(column.indices)  # ten times as fast as validating them
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        if least is not None and (least < 0 or greatest >= len(column.dictionary)):
            raise pa.ArrowInvalid("an index is outside its dictionary")
