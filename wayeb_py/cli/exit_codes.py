"""An error becomes its message on standard error and the exit code of the process.

0 done    1 the patterns are at fault (errors, failing tests, warnings with --strict, files that `fmt --check` would
change)    2 the command line is    3 the data is    4 a limit stopped the run    75 the same call may do better later
130 interrupted    141 the reader of the output has gone    143 terminated
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from wayeb_py.errors import (
    DataError,
    EventsError,
    LimitError,
    MissingColumnError,
    PassingError,
    PatternError,
    UsageError,
    visible_lines,
)

PATTERN_FAULT, USAGE_FAULT, DATA_FAULT, LIMIT_FAULT, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 4, 130, 141
PASSING_FAULT = 75  # what sysexits.h calls EX_TEMPFAIL


@contextmanager
def explained(skipping: str = "") -> Iterator[None]:
    """Turns every error that a user can mend into its message and exit code; wraps each command.

    `skipping` is the hint that a command adds where some patterns read a missing column.

    Wrapping `app()` instead would come too late: typer handles an interruption itself.
    """
    try:
        yield
    except PatternError as error:
        fail(error, PATTERN_FAULT)
    except UsageError as error:
        fail(error, USAGE_FAULT)
    except MissingColumnError as error:
        fail(f"{error}{skipping}", DATA_FAULT)
    except PassingError as error:
        fail(error, PASSING_FAULT)
    except (EventsError, DataError) as error:
        fail(error, DATA_FAULT)
    except LimitError as error:
        fail(error, LIMIT_FAULT)
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has closed it; Python would still flush into the pipe at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED) from None
    except OSError as error:
        from wayeb_py.files.output.whole_file import is_full, write_error  # for start-up time

        if not is_full(error):
            raise
        where = f"cannot write `{error.filename}`" if error.filename else "cannot write"
        fail(write_error(where, error), PASSING_FAULT)


def fail(error: object, code: int) -> NoReturn:
    """Ends the process with a message and this exit code."""
    print(visible_lines(str(error)), file=sys.stderr)
    raise SystemExit(code)


def misuse(message: str) -> NoReturn:
    """Ends the process: the command line is wrong."""
    fail(message, USAGE_FAULT)
