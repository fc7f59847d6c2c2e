"""Shows a run to a person at a terminal: a line while it runs, a summary when it ends, all on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wayeb_py.run.summary import Phase, Progress, Summary
from wayeb_py.text_table import table

if TYPE_CHECKING:
    from rich.console import Console


WAITING: Phase = "starting Spark"


@contextmanager
def shown(visible: bool, console: Console | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """A function that shows progress as a bar with rate and remaining time; None if nothing is shown."""
    if not visible:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[events]} events, {task.fields[rate]}/s"),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def tell(progress: Progress) -> None:
        if progress.phase not in tasks:
            if waiting := tasks.pop(WAITING, None):
                bars.remove_task(waiting)
            tasks[progress.phase] = bars.add_task(progress.phase, total=None, events="0", rate="0")
        task = tasks[progress.phase]
        elapsed_s = bars.tasks[bars.task_ids.index(task)].elapsed or 0.0
        rate = progress.n_events / elapsed_s if elapsed_s > 0 else 0.0
        bars.update(
            task,
            completed=progress.n_bytes,
            total=progress.total_bytes or None,
            events=f"{progress.n_events:,}",
            rate=f"{rate:,.0f}",
        )

    with bars:
        yield tell


def why_nothing(is_selected: bool) -> str:
    """Why a run read no event at all; `is_selected` where --since or --until may have left them out."""
    if is_selected:
        return "the input has none between --since and --until"
    return "the input is empty: there was not one to read"


def render_summary(summary: Summary, is_selected: bool = False) -> str:
    """The run in a few lines: events, entities, detections by pattern, rows set aside and why."""
    told = f"{summary.events_per_s:,.0f}/s in {summary.seconds:.2f} s"
    if not summary.reads_events:
        told = f"the rules read facts alone; {summary.seconds:.2f} s"
    elif summary.read_nothing:
        told = why_nothing(is_selected)
    lines = [
        ("events", f"{summary.events:,}", told),
        *((f"  {name}", f"{own['events']:,}", "") for name, own in summary.streams.items()),
        ("entities", f"{summary.entities:,}", ""),
        *((f"  {name}", f"{own['entities']:,}", "") for name, own in summary.streams.items()),
        ("detections", f"{sum(summary.detections.values()):,}", ""),
        *((f"  {name}", f"{count:,}", "") for name, count in summary.detections.items()),
    ]
    if summary.left_out:
        lines.append(("left out", f"{len(summary.left_out):,}", "the events lack columns of theirs"))
        lines += [(f"  {name}", "", f"needs {', '.join(lacks)}") for name, lacks in summary.left_out.items()]
    if summary.episodes is not None:
        lines.append(("episodes", f"{summary.episodes:,}", ""))
    if summary.aside:
        lines.append(("set aside", f"{summary.aside_rows:,}", summary.aside_file or "--aside FILE keeps them"))
        lines += [(f"  {reason}", f"{count:,}", "") for reason, count in summary.aside.items()]
    if summary.unreadable:
        total = sum(facts["count"] for facts in summary.unreadable.values())
        lines.append(("unreadable values", f"{total:,}", "taken as missing"))
        for column, facts in summary.unreadable.items():
            place = f"first `{facts['example']}` in {facts['file']}, row {facts['row']}"
            lines.append((f"  {column}", f"{facts['count']:,}", place))
    if summary.cleaned:
        lines.append(("cleaned", f"{sum(summary.cleaned.values()):,}", "taken as missing"))
        lines += [(f"  {reason}", f"{count:,}", "") for reason, count in sorted(summary.cleaned.items())]
    if summary.duplicates:
        lines.append(("duplicates", f"{summary.duplicates:,}", "dropped"))
    if summary.sorted_on_disk:
        lines.append(("order", "sorted", "the events were not in the order of time"))
    lines += [("note", "", note) for note in summary.notes]
    if summary.engine is not None:
        lines.append(("engine", "", summary.engine))
    if summary.out is not None:
        lines.append(("written to", "", summary.out))
    return table(lines, right=(1,))
