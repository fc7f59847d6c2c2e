"""A view of a running stream becomes metrics, by names that say what and in which unit; `exporter` serves them.

Counters end in `_total` and only grow, over restarts too; everything else is a gauge. A count under an unknown name
becomes a counter of that name, so that every count is visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wayeb_py.files.output.set_aside import kind_of

if TYPE_CHECKING:
    from wayeb_py.parallel.health.stream_view import StreamView

PREFIX = "wayeb_"
MOST_REASONS, OTHER = 50, "other reasons"


@dataclass(frozen=True, slots=True)
class Metric:
    """A name without the prefix, its kind, the label that distinguishes its series (none if empty), and its meaning."""

    name: str
    kind: Literal["counter", "gauge"]
    label: str
    help: str


# Sums, by the name under which batches count them.
COUNTERS = {
    "rows": Metric("rows_total", "counter", "source", "Rows read, events or not."),
    "events": Metric("events_total", "counter", "source", "Events recognised."),
    "detections": Metric("detections_total", "counter", "pattern", "Detections."),
    "episodes": Metric("episodes_total", "counter", "source", "Episodes closed."),
    "late": Metric("late_events_total", "counter", "source", "Events set aside because they came too late."),
    "late_for_clock": Metric(
        "late_for_clock_events_total", "counter", "source", "Events too late for what looks at several entities."
    ),
    "duplicates": Metric("duplicate_events_total", "counter", "source", "Events dropped as duplicates."),
    "bad": Metric("bad_rows_total", "counter", "reason", "Rows set aside because they are no events."),
    "unreadable": Metric("unreadable_values_total", "counter", "column", "Values that could not be read."),
    "cleaned": Metric("cleaned_values_total", "counter", "reason", "Values that cannot be true, taken as missing."),
    "crowded": Metric(
        "crowded_events_total", "counter", "pattern", "Events at which a pattern followed very many ways of an entity."
    ),
    "ahead": Metric("events_ahead_of_clock_total", "counter", "source", "Events whose time is yet to come."),
    "aged_entities": Metric("aged_entities_total", "counter", "source", "Entities whose state was given up."),
    "new_entities": Metric("new_entities_total", "counter", "source", "Entities seen for the first time."),
    "batches": Metric("batches_total", "counter", "", "Micro-batches done."),
    "empty_batches": Metric("empty_batches_total", "counter", "", "Micro-batches without a row."),
    "batch_s": Metric("batch_seconds_total", "counter", "", "Time spent in micro-batches."),
    "stage_s": Metric(
        "stage_seconds_total", "counter", "stage", "Time for which batches waited for the tasks of a stage."
    ),
    "recognise_s": Metric("recognise_seconds_total", "counter", "source", "Time spent in the recogniser."),
    "read_s": Metric("read_seconds_total", "counter", "source", "Time spent reading the source."),
    "restore_s": Metric("restore_seconds_total", "counter", "source", "Time spent restoring state."),
    "reader_waited_s": Metric(
        "reader_waited_seconds_total", "counter", "source", "Time the reader waited in a task, its buffer full."
    ),
    "recogniser_waited_s": Metric(
        "recogniser_waited_seconds_total",
        "counter",
        "source",
        "Time the recogniser waited in a task, the buffer empty.",
    ),
    "level_arrived": Metric("level_arrived_events_total", "counter", "level", "Events that arrived for a level."),
    "level_done": Metric("level_done_events_total", "counter", "level", "Events that a level has recognised."),
    "level_shed": Metric("level_shed_events_total", "counter", "level", "Events skipped since they waited too long."),
    "level_replaced": Metric("level_replaced_events_total", "counter", "level", "Events that newer ones replaced."),
    "level_stale": Metric("level_stale_detections_total", "counter", "level", "Detections marked as too late."),
    "level_dropped": Metric("level_dropped_detections_total", "counter", "level", "Detections dropped as too late."),
    "restarts": Metric("restarts_total", "counter", "", "How often the stream was started again."),
}

_SOURCE = {
    "ratio": Metric(
        "backpressure_ratio", "gauge", "source", "Share of the last half minute in which the source waited."
    ),
    "waited_s": Metric(
        "source_waited_seconds_total", "counter", "source", "Time the source waited for the recogniser."
    ),
    "watched_s": Metric("source_watched_seconds_total", "counter", "source", "Time the source was watched."),
    "lag_events": Metric("lag_events", "gauge", "source", "Events offered and not recognised yet."),
    "offered": Metric("offset_offered", "gauge", "source", "Where the source ends now."),
    "taken": Metric("offset_taken", "gauge", "source", "Where the batch ends that is being recognised."),
    "done": Metric("offset_done", "gauge", "source", "Up to where everything is recognised and written."),
    "idle_s": Metric("source_idle_seconds", "gauge", "source", "Time since the source had something to do."),
}

_LEVEL = {
    "waiting": Metric("level_waiting_events", "gauge", "level", "Events that wait for a level, after the last batch."),
    **{
        f"p{share}_s": Metric(
            f"level_latency_p{share}_seconds", "gauge", "level",
            f"What {share} of 100 events of a level took at most from arrival to the end, over the last 30 batches.",
        )
        for share in (50, 95, 99)
    },
}  # fmt: skip

STAGE = Metric("stage_ratio", "gauge", "stage", "Share of a stage in the time of the last batches.")

_WHOLE = {
    "backpressure": Metric(
        "backpressure_overall_ratio", "gauge", "", "Mean of the back-pressure ratios of all sources."
    ),
    "input_per_s": Metric("input_events_per_second", "gauge", "", "Events offered, over the last half minute."),
    "processed_per_s": Metric(
        "processed_events_per_second", "gauge", "", "Events recognised, over the last half minute."
    ),
    "event_time_lag_s": Metric(
        "event_time_lag_seconds", "gauge", "", "How far the newest recognised event is behind the source's clock."
    ),
    "entities": Metric("entities", "gauge", "", "Entities of which state is kept."),
    "state_bytes": Metric("state_bytes", "gauge", "", "Size of the state of all entities and patterns."),
    "state_bytes_per_entity": Metric("state_bytes_per_entity", "gauge", "", "Size of the state of an entity, mean."),
    "most_rows": Metric("buffer_most_rows", "gauge", "", "Most rows that were read ahead in a task."),
    "batch": Metric("batch_number", "gauge", "", "Number of the last batch that is done."),
    "last_batch_s": Metric("last_batch_seconds", "gauge", "", "How long the last batch took."),
    "resident_bytes": Metric("driver_resident_bytes", "gauge", "", "Memory of the process that drives the stream."),
    "up": Metric("up", "gauge", "", "1 while the stream runs."),
}

Sample = tuple[Metric, str, float]  # metric, value of its label, value


def samples(view: StreamView) -> Iterator[Sample]:
    """All metrics of a view."""
    for name, of_label in view.sums.items():
        metric = COUNTERS.get(name) or Metric(f"{name}_total", "counter", "source", "Counted by the recogniser.")
        for label, value in (_few_kinds(of_label) if metric.label == "reason" else of_label).items():
            yield metric, label, value
    for source, facts in view.sources.items():
        for name, metric in _SOURCE.items():
            yield metric, source, getattr(facts, name)
    for level, numbers in view.by_level.items():
        for name, value in numbers.items():
            yield _LEVEL[name], level, value
    for stage, share in view.stages.items():
        yield STAGE, stage, share
    for name, metric in _WHOLE.items():
        whole = getattr(view, name)
        if whole is not None:
            yield metric, "", whole


def _few_kinds(by_reason: Mapping[str, float]) -> dict[str, float]:
    """Sums by the kinds of reasons: each label is a series that is kept for months, and data must not make new ones."""
    sums: dict[str, float] = {}
    for reason, value in sorted(by_reason.items()):
        kind = kind_of(reason)
        if kind not in sums and len(sums) >= MOST_REASONS:
            kind = OTHER
        sums[kind] = sums.get(kind, 0) + value
    return sums
