"""Reads blocks of events ahead of the recogniser in the same task, into a buffer of bounded size.

    reader thread ──put──▶ buffer (a bounded number of rows) ──take──▶ recogniser

One task reads and recognises: the buffer shows which of the two waits for the other, and a source faster than the
recogniser fills the buffer and not the memory. It counts rows and not blocks, whose sizes differ a thousandfold; a
block larger than the buffer goes in alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from wayeb_py.clock import SYSTEM, Clock
from wayeb_py.files.formats.block import Block

BUFFER_ROWS = 1 << 18


@dataclass(slots=True)
class BufferWaits:
    """What happened to a task's buffer."""

    reader_waited_s: float = 0.0  # the buffer was full: the recogniser is slower than the source
    recogniser_waited_s: float = 0.0  # the buffer was empty: the source is slower
    most_rows: int = 0  # the most rows in the buffer at any time


class ReadAhead:
    """The same blocks, read in a thread of their own; closing it ends the thread and closes the blocks."""

    def __init__(
        self,
        blocks: Iterator[Block],
        capacity_rows: int = BUFFER_ROWS,
        clock: Clock = SYSTEM,
    ) -> None:
        self.waits = BufferWaits()
        self._blocks, self._capacity_rows, self._clock = blocks, capacity_rows, clock
        self._buffer: deque[Block] = deque()
        self._n_rows = 0
        self.is_full = False  # the reader is waiting
        self._ended = self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="wayeb-ahead", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for block in self._blocks:
                if not self._put(block):
                    break
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._blocks, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, block: Block) -> bool:
        with self._changed:
            began_s = self._clock.steady_s()
            while self._buffer and self._n_rows + block.n_rows > self._capacity_rows and not self._closed:
                self.is_full = True
                self._changed.wait()
            self.is_full = False
            self.waits.reader_waited_s += self._clock.steady_s() - began_s
            if self._closed:
                return False
            self._buffer.append(block)
            self._n_rows += block.n_rows
            self.waits.most_rows = max(self.waits.most_rows, self._n_rows)
            self._changed.notify_all()
            return True

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        with self._changed:
            began_s = self._clock.steady_s()
            while not self._buffer and not self._ended:
                self._changed.wait()
            self.waits.recogniser_waited_s += self._clock.steady_s() - began_s
            if self._buffer:
                block = self._buffer.popleft()
                self._n_rows -= block.n_rows
                self._changed.notify_all()
                return block
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """Stops reading; drops the content of the buffer."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
