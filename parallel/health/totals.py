"""The counts of batches become totals that continue over restarts, each batch counted once.

The totals lie beside the checkpoint with the number of the last batch in them; the driver writes them after the batch
is in the sink and before Spark knows that it is done. A batch that is repeated after a crash has the number that is
there already, or the next one: it is counted once either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wayeb_py.engine.priority_levels.level_tally import COUNTED
from wayeb_py.errors import DataError
from wayeb_py.files.output.whole_file import make_folder, write_whole
from wayeb_py.parallel.durable.sealed_files import seal, unseal

FILE = "totals.json"

# A count of a partition or group is either a gauge, whose last value holds, or a sum.
_LEVELS = ("entities", "state_bytes")
# Rows set aside are counted by reason, and no stream reads an input that a run has read before.
_NOT_COUNTED = ("partition", "group", "start", "first_s", "set_aside", "recognised_before", "stage", "ran_s")
BY_LEVEL = "by_level"  # counts of the levels of a live stream: sums, except for what waits
_GREATEST = ("end", "last_s", "most_rows")  # a range may be read in pieces


@dataclass(slots=True)
class Totals:
    """Sums by name and label (a source partition, a pattern, a reason), and gauges by name and partition."""

    batch: int = -1
    starts: int = 0
    sums: dict[str, dict[str, float]] = field(default_factory=dict)
    levels: dict[str, dict[str, float]] = field(default_factory=dict)

    def count(self, batch: int, counts: Iterable[Mapping[str, Any]]) -> bool:
        """Adds what a batch counted, unless it is counted already."""
        if batch <= self.batch:
            return False
        self.batch = batch
        n_rows = 0
        counts = list(counts)
        for stage, took_s in times_of_stages(counts).items():
            self.add("stage_s", stage, took_s)
        for counted in counts:
            self._add(counted)
            n_rows += counted.get("rows", 0)
        self.add("batches", "", 1)
        self.add("empty_batches", "", 0 if n_rows else 1)
        return True

    def add(self, name: str, label: str, amount: float) -> None:
        """Adds to one sum."""
        of_label = self.sums.setdefault(name, {})
        of_label[label] = of_label.get(label, 0) + amount

    def _add(self, counted: Mapping[str, Any]) -> None:
        partition, group = str(counted.get("partition", "")), counted.get("group", 0)
        for name, value in counted.items():
            if name in _NOT_COUNTED or value is None or isinstance(value, str):
                continue
            if name == BY_LEVEL:
                for level, numbers in value.items():
                    self._add_level(level, numbers)
            elif isinstance(value, Mapping):
                for label, amount in value.items():
                    self.add(name, str(label), amount)
            elif name == "state_bytes":
                self.levels.setdefault(name, {})[f"{partition}/{group}"] = value
            elif name in _GREATEST:
                of_partition = self.levels.setdefault(name, {})
                of_partition[partition] = max(value, of_partition.get(partition, value))
            elif name in _LEVELS:
                self.levels.setdefault(name, {})[f"{partition}/{group}" if group else partition] = value
            else:
                self.add(name, partition, value)

    def _add_level(self, level: str, numbers: Mapping[str, Any]) -> None:
        for name in COUNTED:
            self.add(f"level_{name}", level, numbers[name])
        self.levels.setdefault("level_waiting", {})[level] = numbers["waiting"]

    def sum(self, name: str) -> float:
        """A sum over all labels."""
        return sum(self.sums.get(name, {}).values())

    def level(self, name: str) -> float:
        """A gauge over all partitions."""
        return sum(self.levels.get(name, {}).values())


def times_of_stages(counts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """How long a batch waited for each stage: from the begin of its first task to the end of its last."""
    ran: dict[str, tuple[float, float]] = {}
    for counted in counts:
        if "ran_s" in counted:
            began_s, ended_s = counted["ran_s"]
            first_s, last_s = ran.get(counted["stage"], (began_s, ended_s))
            ran[counted["stage"]] = min(first_s, began_s), max(last_s, ended_s)
    return {stage: max(0.0, last_s - first_s) for stage, (first_s, last_s) in ran.items()}


def load_totals(folder: Path) -> Totals:
    """The totals so far, none if there are none."""
    path = folder / FILE
    try:
        return Totals(**unseal(path.read_bytes(), must=False))
    except FileNotFoundError:
        return Totals()
    except (ValueError, TypeError):
        raise DataError(
            "the totals of this stream cannot be read: the file is cut short or damaged",
            str(path),
            hint="remove the file: counting begins at 0 again, detections are not touched",
        ) from None


def save_totals(folder: Path, totals: Totals) -> None:
    """Puts the totals in their place, whole or not at all."""
    make_folder(folder)
    write_whole(folder / FILE, seal(json.dumps(asdict(totals))).encode())
