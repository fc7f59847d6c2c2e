"""A bar on the terminal for each phase of a long command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(visible: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """A function that takes phase, done and total and moves the bar of the phase; None where nothing is shown."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bars:

        def tell(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task(phase, total=total)
            bars.update(tasks[phase], completed=done, total=total)

        yield tell
