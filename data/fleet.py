"""Messages of a fleet of vehicles, of any size, the same for the same seed.

A clock ticks once a minute. At each tick every vehicle that is awake sends one message, at its own second of the
minute, so that the file is in order of time and the vehicles interleave as they do at a provider. A vehicle is parked,
idles or moves; a parked one sleeps and sends a heartbeat about every forty minutes; messages drop out now and then.
Faults of the kinds that `patterns/fleet.sre` looks for are injected at a known rate, and how many were completed is
written into the file's metadata, so that recall can be checked. Some attributes are null, as real ones are.

Vehicles are entries of arrays, and a tick is a handful of vector operations: simulating vehicle by vehicle would read
better, but needs either all events in memory or a merge to put them in order of time.

    python data/fleet.py --events 20000000 --out fleet.parquet
    python data/fleet.py --events 6000 --vehicles 24 --seed 13 --out data/fleet_sample.parquet    # the committed sample
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STATUSES = ("parked", "idle", "moving")
PARKED, IDLE, MOVING = range(3)

# Each fault takes over a vehicle for this many messages.
FAULTS = (
    "ParkedMovingSwing",
    "IdleParkedSwing",
    "SpeedSwing",
    "MovingWithZeroSpeed",
    "MovingWithBadSignal",
    "PossibleTheft",
)
FAULT_LENGTH = 4
FAULT_RATE = 0.002  # faults that begin, per message
NULL_RATE = 0.003  # of each of speed and satellites
DROPOUT_RATE = 0.01  # messages that never arrive

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
TICK_MS = 60_000
HEARTBEAT_TICKS = (33, 48)  # beyond half an hour, so that a heartbeat tells "off for more than 30 minutes"

SCHEMA = pa.schema(
    [
        ("vehicle_id", pa.int64()),
        ("ts", pa.timestamp("ms", tz="UTC")),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("status", pa.string()),
        ("ignition", pa.bool_()),
        ("speed", pa.float32()),
        ("travelled", pa.float64()),
        ("satellites", pa.uint8()),
        ("accelerating", pa.bool_()),
        ("fuel", pa.float64()),
    ]
)


class Fleet:
    """The vehicles as they are at the present tick; `tick` moves them and returns what they send."""

    def __init__(self, n_vehicles: int, seed: int) -> None:
        self.random = random = np.random.default_rng(seed)
        self.vehicle_id = 10_000_000 + random.permutation(7 * n_vehicles)[:n_vehicles].astype(np.int64)
        self.offset_ms = random.integers(0, TICK_MS, n_vehicles)
        self.status = random.choice([PARKED, IDLE, MOVING], n_vehicles, p=[0.3, 0.1, 0.6])
        self.remaining = random.integers(1, 40, n_vehicles)  # ticks until the status changes
        self.heartbeat = random.integers(1, 40, n_vehicles)  # ticks until a sleeping vehicle reports
        self.speed_kmh = np.where(self.status == MOVING, random.uniform(20, 110, n_vehicles), 0.0)
        self.heading = random.uniform(0, 2 * np.pi, n_vehicles)
        self.lon = random.uniform(-4.0, 12.0, n_vehicles)
        self.lat = random.uniform(44.0, 52.0, n_vehicles)
        self.fuel = random.uniform(0.3, 1.0, n_vehicles)
        self.fault = np.full(n_vehicles, -1)  # index into FAULTS, or -1
        self.fault_step = np.zeros(n_vehicles, np.int64)
        self.now = 0

    def tick(self) -> dict[str, np.ndarray]:
        """The messages of the next minute, in order of time."""
        random, n = self.random, len(self.status)
        self.remaining -= 1
        self.heartbeat -= 1
        changing = np.flatnonzero((self.remaining <= 0) & (self.fault < 0))
        fell_asleep = self._change_status(changing)
        before_kmh = self.speed_kmh
        drift = before_kmh + random.normal(0, 12, n)
        self.speed_kmh = np.where(self.status == MOVING, np.clip(np.where(before_kmh > 0, drift, 30.0), 5, 130), 0.0)
        travelled_m = np.round(self.speed_kmh / 3.6 * 60 * random.uniform(0.9, 1.1, n), 1)
        self.heading += random.normal(0, 0.2, n)
        self.lon += travelled_m * np.cos(self.heading) / 75_000
        self.lat += travelled_m * np.sin(self.heading) / 111_195
        self.fuel = np.where(self.fuel < 0.05, 1.0, self.fuel - travelled_m * 1.2e-6)

        asleep = self.status == PARKED
        due = asleep & (self.heartbeat <= 0)
        # Half of the vehicles report that they were switched off; the others simply fall silent.
        says_off = fell_asleep & (self.vehicle_id % 2 == 0)
        awake = ~asleep | due | says_off
        self.heartbeat[due | fell_asleep] = random.integers(*HEARTBEAT_TICKS, n)[due | fell_asleep]
        sends = (awake & (random.random(n) >= DROPOUT_RATE)) | (self.fault >= 0)
        starting = sends & (self.fault < 0) & (random.random(n) < FAULT_RATE)
        self.fault[starting] = random.integers(0, len(FAULTS), n)[starting]
        self.fault_step[starting] = 0

        who = np.flatnonzero(sends)
        who = who[np.argsort(self.offset_ms[who], kind="stable")]
        message = self._measure(who, before_kmh, travelled_m)
        self._distort(who, message)
        self.now += 1
        return message

    def _change_status(self, changing: np.ndarray) -> np.ndarray:
        random, k = self.random, len(changing)
        old, lot = self.status[changing], random.random(k)
        new = np.where(old == MOVING, np.where(lot < 0.55, IDLE, PARKED), np.where(lot < 0.8, MOVING, PARKED))
        new = np.where((old == PARKED) & (new == PARKED), MOVING, new)
        lasts = np.where(new == MOVING, random.integers(10, 90, k), random.integers(2, 12, k))
        lasts = np.where(new == PARKED, random.integers(35, 400, k), lasts)
        self.status[changing], self.remaining[changing] = new, lasts
        fell_asleep = np.zeros(len(self.status), np.bool_)
        fell_asleep[changing] = (old != PARKED) & (new == PARKED)
        return fell_asleep

    def _measure(self, who: np.ndarray, before_kmh: np.ndarray, travelled_m: np.ndarray) -> dict[str, np.ndarray]:
        random, k = self.random, len(who)
        status = self.status[who]
        return {
            "vehicle_id": self.vehicle_id[who],
            "ts": START_MS + self.now * TICK_MS + self.offset_ms[who],
            "lon": np.round(self.lon[who], 5),
            "lat": np.round(self.lat[who], 5),
            "status": status.copy(),
            "ignition": status != PARKED,
            "speed": np.round(self.speed_kmh[who], 1).astype(np.float32),
            "travelled": travelled_m[who],
            "satellites": random.integers(4, 14, k).astype(np.uint8),
            "accelerating": self.speed_kmh[who] > before_kmh[who],
            "fuel": np.round(self.fuel[who], 3),
            "no_speed": random.random(k) < NULL_RATE,
            "no_satellites": random.random(k) < NULL_RATE,
            "ended_fault": np.full(k, -1),
        }

    def _distort(self, who: np.ndarray, message: dict[str, np.ndarray]) -> None:
        """Lets the faults that are under way falsify their messages, and marks where one ends."""
        rows = np.flatnonzero(self.fault[who] >= 0)
        vehicles = who[rows]
        fault, odd = self.fault[vehicles], self.fault_step[vehicles] % 2 == 1
        message["no_speed"][rows] = message["no_satellites"][rows] = False

        far_m = np.round(self.random.uniform(31, 900, len(rows)), 1)
        fast_kmh = np.round(self.random.uniform(51, 130, len(rows)), 1)

        def put(column: str, kind: int, even_value: np.ndarray | float, odd_value: np.ndarray | float) -> None:
            mine = fault == kind
            message[column][rows[mine]] = np.where(odd, odd_value, even_value)[mine]

        put("status", 0, PARKED, MOVING)
        put("status", 1, IDLE, PARKED)
        put("speed", 2, fast_kmh, 0)
        put("status", 3, MOVING, MOVING)
        put("speed", 3, 0, 0)
        put("travelled", 3, far_m, far_m)
        put("accelerating", 4, True, True)
        put("satellites", 4, 0, 0)
        put("travelled", 4, far_m, far_m)
        put("status", 5, PARKED, PARKED)
        put("speed", 5, 0, 0)
        put("travelled", 5, far_m, far_m)
        self.fault_step[vehicles] += 1
        ended = self.fault_step[vehicles] >= FAULT_LENGTH
        message["ended_fault"][rows[ended]] = fault[ended]
        self.fault[vehicles[ended]] = -1


def generate_fleet(
    n_events: int, n_vehicles: int, seed: int = 1, batch_rows: int = 1 << 18
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Exactly `n_events` messages in order of time, in batches, each with how many faults of each kind end in it."""
    fleet = Fleet(n_vehicles, seed)
    kept: list[dict[str, np.ndarray]] = []
    n_kept = n_done = 0
    while n_done < n_events:
        kept.append(fleet.tick())
        n_kept += len(kept[-1]["ts"])
        if n_kept >= batch_rows or n_done + n_kept >= n_events:
            take = min(n_kept, n_events - n_done)
            columns = {name: np.concatenate([message[name] for message in kept])[:take] for name in kept[0]}
            ended = columns.pop("ended_fault")
            yield _to_batch(columns), np.bincount(ended[ended >= 0], minlength=len(FAULTS))
            n_done += take
            kept, n_kept = [], 0


def _to_batch(columns: dict[str, np.ndarray]) -> pa.RecordBatch:
    masks = {"speed": columns.pop("no_speed"), "satellites": columns.pop("no_satellites")}
    arrays = []
    for field in SCHEMA:
        values = columns[field.name]
        if field.name == "status":
            codes = pa.array(values.astype(np.int8))
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(STATUSES)).cast(pa.string()))
        else:
            arrays.append(pa.array(values, type=field.type, mask=masks.get(field.name)))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def write_fleet(path: Path, n_events: int, n_vehicles: int | None = None, seed: int = 1) -> dict[str, int]:
    """Writes a Parquet file and returns how many faults of each kind it holds; by default 1,000 events a vehicle.

    The counts stand in the file's metadata too, as JSON under `injected`; a fault that the end of the file cuts short
    does not count.
    """
    n_vehicles = n_vehicles or max(20, n_events // 1000)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    n_faults = np.zeros(len(FAULTS), np.int64)
    with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd", use_dictionary=["status", "vehicle_id"]) as writer:
        for batch, n_ended in generate_fleet(n_events, n_vehicles, seed):
            writer.write_batch(batch, row_group_size=1 << 18)
            n_faults += n_ended
        injected = dict(zip(FAULTS, n_faults.tolist(), strict=True))
        writer.add_key_value_metadata({"injected": json.dumps(injected)})
    unfinished.replace(path)
    return injected


def read_injected(path: Path) -> dict[str, int]:
    """How many faults of each kind a file of `write_fleet` holds."""
    counts: dict[str, int] = json.loads(pq.read_metadata(path).metadata[b"injected"])
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the messages of a made-up fleet to a Parquet file.")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument(
        "--vehicles", type=int, default=None, help="default: one for every thousand events, at least 20"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    injected = write_fleet(arguments.out, arguments.events, arguments.vehicles, arguments.seed)
    print(f"{arguments.out}: {arguments.events:,} events, injected faults {injected}")


if __name__ == "__main__":
    main()
