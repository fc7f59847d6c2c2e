"""A thread writes tables while the next ones are made, bounded and in order.

Encoding and compressing leave the interpreter lock, so they run beside recognising. An error there is raised at the
next write or at the commit, in the thread that wrote the table. Nothing else changes: only `commit` gives the file its
name, and it waits until everything is written; `discard` drops what still waits.
"""

from __future__ import annotations

import queue
import threading

import pyarrow as pa

from wayeb_py.files.output.write import Output

WAITING = 4  # tables


class WrittenBehind:
    """An output that takes tables and returns at once, unless too many are waiting."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._waiting: queue.Queue[pa.Table | None] = queue.Queue(maxsize=WAITING)  # None is the end
        self._error: BaseException | None = None
        self._is_dropped = False
        self._thread = threading.Thread(target=self._work, name="wayeb-write", daemon=True)

    def open(self) -> None:
        self._output.open()
        self._thread.start()

    def write(self, table: pa.Table) -> None:
        self._raise()
        self._waiting.put(table)

    def commit(self) -> None:
        self._join()
        self._raise()
        self._output.commit()

    def discard(self) -> None:
        self._is_dropped = True
        self._join()
        self._output.discard()

    def _work(self) -> None:
        # Takes tables until the end whatever happens, so that no thread waits for room in vain.
        while (table := self._waiting.get()) is not None:
            if self._error is None and not self._is_dropped:
                try:
                    self._output.write(table)
                except BaseException as error:
                    self._error = error

    def _join(self) -> None:
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error
