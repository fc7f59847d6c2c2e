"""Detections wait in a bounded queue until a thread has delivered them to a consumer that must get each of them.

While the queue is full, `put` waits: the recogniser then waits for the consumer, its source for the recogniser, and
nothing is lost. A consumer that is away is tried again, at first after half a second, then ever less often. A batch is
done only when its detections are delivered: after a crash they are sent again, with the same `detection_id`.

*Not taken*: dropping what does not fit. A user who names a webhook or a broker wants every detection. Viewers, which
only watch (`viewers`), must not delay the stream: a slow viewer loses lines, which are counted.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from wayeb_py.errors import PassingError

MOST = 10_000  # detections that may wait
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 30.0


class UndeliveredError(Exception):
    """The consumer did not take a detection; it may the next time."""


class Outbox:
    """A queue and the thread that empties it."""

    def __init__(
        self,
        deliver: Callable[[Any], None],
        name: str,
        *,
        most: int = MOST,
        say: Callable[[str], None] = lambda text: None,
        waits: tuple[float, float] = (FIRST_WAIT_S, LONGEST_WAIT_S),
    ) -> None:
        self._deliver, self.name, self._most, self._say = deliver, name, most, say
        self._waits = waits
        self._queue: deque[Any] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self.n_delivered = self.n_tried_again = 0
        self.most_waiting = 0
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="wayeb-outbox", daemon=True)
        self._thread.start()

    def put(self, item: Any) -> None:
        """Adds something to deliver; waits while the queue is full."""
        with self._changed:
            while len(self._queue) >= self._most and self._fault is None and not self._closing:
                self._changed.wait()
            self._refuse_faulty()
            self._queue.append(item)
            self.most_waiting = max(self.most_waiting, len(self._queue))
            self._changed.notify_all()

    def flush(self) -> None:
        """Returns when everything is delivered; PassingError where the stream ends before that."""
        with self._changed:
            while self._queue and self._fault is None and not self._closing:
                self._changed.wait()
            self._refuse_faulty()
            if self._queue:
                raise PassingError(
                    f"{len(self._queue)} detections could not be delivered", self.name,
                    hint="start again: the batch is repeated, and they are sent again",
                )  # fmt: skip

    def _refuse_faulty(self) -> None:
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        wait_s = self._waits[0]
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                if not self._queue or self._closing:
                    return
                item = self._queue[0]
            try:
                self._deliver(item)
            except UndeliveredError as error:
                self.n_tried_again += 1
                self._say(f"{self.name}: {error}; tried again in {wait_s:g} s")
                with self._changed:
                    if not self._closing:
                        self._changed.wait_for(lambda: self._closing, wait_s)
                wait_s = min(2 * wait_s, self._waits[1])
                continue
            except BaseException as error:
                with self._changed:
                    self._fault = error
                    self._changed.notify_all()
                return
            wait_s = self._waits[0]
            with self._changed:
                self._queue.popleft()
                self.n_delivered += 1
                self._changed.notify_all()

    def close(self) -> None:
        """Ends the thread; what waits is left."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
