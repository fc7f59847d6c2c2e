"""Random files with two streams, and events for them: ties, gaps, nulls, late ones, in any interleaving and cuts."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import shapely

import wayeb_py
from tests.oracle import Column
from tests.oracle_file import Expected, Row, expect
from tests.oracle_several import Sent
from wayeb_py.patterns import Patterns

# Vessels and radar tracks count their times in different units, and have keys of different types.
VESSELS = pa.schema([("mmsi", pa.int64()), ("ts", pa.int64()), *((name, pa.float64()) for name in ("lon", "lat", "x"))])
RADAR = pa.schema([("track", pa.string()), ("t", pa.int64()), *((name, pa.float64()) for name in ("px", "py", "x"))])
SCHEMAS = {"vessels": VESSELS, "radar": RADAR}
TICKS = {"vessels": 1, "radar": 1000}
TIMES = {"vessels": "ts", "radar": "t"}
COLUMNS = [
    {"mmsi": Column("integer"), "ts": Column("integer"), **{name: Column("float") for name in ("lon", "lat", "x")}},
    {"track": Column("text"), "t": Column("integer"), **{name: Column("float") for name in ("px", "py", "x")}},
]
ZONE = shapely.box(9.9975, 49.9, 10.0025, 50.1)  # between the second and the fourth of the longitudes
BUOY = shapely.Point(10.0, 50.001)

OF_ONE = {
    "Slow": "pattern Slow on vessels := (x < 2){2,}",
    "Up": "pattern Up on vessels := (x > prev(x)) ; (x > 1)",
    "Tier": "pattern Tier on vessels := (detected(Slow)) ; (since(Slow) < 20 s)",
    "Track": "pattern Track on radar := (x > 1){2,} within 30 s",
    "InZone": "pattern InZone on radar := (crossed(zone)) ; any",
}
SILENCES = {
    "Quiet": "pattern Quiet on vessels := (x > 1) ; silence 20 s",
    "Gone": "pattern Gone on radar := (x < 3)+ ; silence 7 s within 40 s",
    "QuietTier": "pattern QuietTier on vessels := (detected(Slow)) ; silence 10 s",
    "Ended": "pattern Ended on vessels := (x > 1) ; (x < 3)* ; $",
    "TrackEnded": "pattern TrackEnded on radar := (x < 3)+ ; $ within 40 s",
}
NEAR = "within 1 km fresh 30 s"
PAIRS = {
    "Near": f"pattern Near for each pair a, b in vessels {NEAR} := (distance(a, b) < 500 m and a.x != b.x){{2,}}",
    "Seen": f"pattern Seen for each pair a in vessels, b in radar {NEAR} := (a.x > b.x)+ ; (reports(b))",
    "Echo": f"pattern Echo for each ordered pair a, b in radar {NEAR} := (age(a) < 3 s and b.x > 1) ; any",
}
WITH_TIERS = {
    "SlowPair": f"pattern SlowPair for each pair a, b in vessels {NEAR} := "
    "(detected(a, Slow)) ; (not detected(b, Slow))",
    "SeenSlow": f"pattern SeenSlow for each pair a in vessels, b in radar {NEAR} := "
    "(detected(a, Tier) or detected(b, Track))",
}
WITH_WAYS = {
    "Crossing": f"pattern Crossing for each ordered pair a, b in vessels {NEAR} := (crossed(a, zone)) ; any",
    "Passing": f"pattern Passing for each pair a in vessels, b in radar {NEAR} := (passed(buoy, 150 m))",
}
DARK = {
    "Dark": f"pattern Dark for each ordered pair a, b in vessels {NEAR} := "
    "(distance(a, b) < 500 m) ; silence of a 10 s",
    "BothDark": f"pattern BothDark for each pair a, b in vessels {NEAR} := (a.x > 0 or b.x > 0){{2,}} ; silence 8 s",
    "Lost": f"pattern Lost for each pair a in vessels, b in radar {NEAR} := any ; silence of b 9 s within 30 s",
    "AllLost": f"pattern AllLost for each pair a in vessels, b in radar {NEAR} := (a.x < 3) ; silence 6 s",
}
POOL = {**OF_ONE, **SILENCES, **PAIRS}
READS = {"Tier": ["Slow"], "QuietTier": ["Slow"], "SlowPair": ["Slow"], "SeenSlow": ["Slow", "Tier", "Track"]}


@dataclass(frozen=True)
class World:
    """A file, and what was sent for it, in the order of arrival of each stream."""

    text: str
    sent: dict[str, list[dict[str, Any]]] = field(repr=False)
    seed: int
    lateness_s: dict[str, int | None]

    def compile(self, folder: Path) -> Patterns:
        zone = {"type": "Feature", "properties": {"name": "z"}, "geometry": shapely.geometry.mapping(ZONE)}
        (folder / "zone.geojson").write_text(json.dumps(zone))
        (folder / "buoys.csv").write_text(f"name,lon,lat\nb,{BUOY.x},{BUOY.y}\n")
        (folder / "file.sre").write_text(self.text)
        return wayeb_py.compile(folder / "file.sre")

    def expect(self, patterns: Patterns) -> Expected:
        number = {name: i for i, name in enumerate(SCHEMAS)}
        sent = [Sent(event, number[name]) for name, events in self.sent.items() for event in events]
        return expect(patterns.meaning, sent, COLUMNS, {"zone": [ZONE], "buoy": [BUOY]})

    @property
    def orders(self) -> dict[str, Literal["arrival", "sorted"]]:
        return {name: "sorted" if late is None else "arrival" for name, late in self.lateness_s.items()}


def make_world(seed: int, pool: Mapping[str, str] = POOL, n_events: int = 50) -> World:
    """Some of the patterns of the pool with what they read, over two streams that are close to each other."""
    dice = random.Random(seed)
    chosen = dice.sample(sorted(pool), dice.randint(1, min(4, len(pool))))
    named = dict.fromkeys([read for name in chosen for read in READS.get(name, [])] + chosen)
    lateness_s = {name: dice.choice((None, None, 0, 3, 10)) for name in SCHEMAS}
    lines = {
        name: " ".join(
            [
                *([] if lateness_s[name] is None else [f"lateness {lateness_s[name]} s"]),
                *(["forget after 40 s"] if dice.random() < 0.3 else []),
                *(["dedupe"] if dice.random() < 0.3 else []),
            ]
        )
        for name in SCHEMAS
    }
    heads = [
        f"stream vessels {{ key mmsi time ts in s position lon, lat attr x number {lines['vessels']} }}",
        f"stream radar {{ key track time t in ms position px, py attr x number {lines['radar']} }}",
        'areas zone from "zone.geojson"',
        'points buoy from "buoys.csv"',
    ]
    texts = {**OF_ONE, **pool}
    sent = {name: list(_events(dice, name, n_events, lateness_s[name])) for name in SCHEMAS}
    return World("\n".join([*heads, *(texts[name] for name in named)]) + "\n", sent, seed, lateness_s)


def _events(dice: random.Random, name: str, n_events: int, lateness_s: int | None) -> Iterator[dict[str, Any]]:
    key, time, lon, lat, _ = SCHEMAS[name].names
    keys: Sequence[Any] = (3, 20, 100) if name == "vessels" else ("t1", "t10", "t2")
    now_ms, sent = dice.choice((0, 2000)), []
    place = {k: (dice.choice((9.994, 9.996, 9.998, 10.0, 10.002, 10.004)), dice.choice((50.0, 50.002))) for k in keys}
    for _ in range(n_events):
        now_ms += dice.choice((0, 0, 1000, 1000, 2000, 4000, 9000, 26000 if dice.random() < 0.3 else 0))
        if name == "radar" and dice.random() < 0.2:
            now_ms += 500
        who = dice.choice(keys)
        if dice.random() < 0.4:
            place[who] = dice.choice((9.994, 9.996, 9.998, 10.0, 10.002, 10.004)), dice.choice((50.0, 50.002, 50.1))
        event: dict[str, Any] = {
            key: who, time: now_ms // (1000 // TICKS[name]), lon: place[who][0], lat: place[who][1],
            "x": float(dice.randrange(4)),
        }  # fmt: skip
        if dice.random() < 0.08:
            event[dice.choice((key, time, lon, lat, "x", "x", lon))] = None
        sent.append((now_ms, event))
    if lateness_s is None:
        for _, event in sent:
            yield event
        return
    for _, event in sorted(sent, key=lambda one: one[0] + dice.choice((0, 0, 0, 2000, 5000, 15000))):
        yield event


def batch_of(name: str, events: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(events), schema=SCHEMAS[name])


@dataclass
class Found:
    """What a recogniser gave."""

    rows: list[Row]
    n_late: dict[str, int]
    n_late_for_clock: dict[str, int]
    n_aside: int


def run(world: World, patterns: Patterns, dice: random.Random, *, saves: bool) -> Found:
    """Feeds the streams in some interleaving and some cuts, continuing from a saved state now and then."""
    recogniser = wayeb_py.Recogniser(patterns, order=world.orders)
    names = [name for name in SCHEMAS if name in patterns.by_stream]
    for name in names:
        recogniser.bind(SCHEMAS[name], name)
    left = {name: list(world.sent[name]) for name in names}
    tables = []
    late, late_for_clock, n_aside = dict.fromkeys(names, 0), dict.fromkeys(names, 0), 0
    while any(left.values()):
        name = dice.choice([name for name in names if left[name]])
        n = dice.choice((1, 3, 7, 100))
        batch, left[name] = batch_of(name, left[name][:n]), left[name][n:]
        tables.append(recogniser.feed(batch, name).to_arrow())
        if (saves and dice.random() < 0.3) or not any(left.values()):
            for each, counts in recogniser.counts_of.items():
                late[each] += counts.late
                late_for_clock[each] += counts.late_for_clock
            n_aside += sum(one.num_rows for _, one in recogniser.aside)
            recogniser = wayeb_py.Recogniser(patterns, order=world.orders, saved=recogniser.save())
    tables.append(recogniser.finish().to_arrow())
    return Found(sorted(row for table in tables for row in rows_of(table, patterns)), late, late_for_clock, n_aside)


def rows_of(table: pa.Table, patterns: Patterns) -> Iterator[Row]:
    """The rows of a table of detections, in the oracle's own terms."""

    def seconds(time: Any) -> Fraction:
        """Where patterns read two streams, which count in different units, times are instants."""
        if isinstance(time, int):
            (only,) = patterns.by_stream
            return Fraction(time, TICKS[only])
        return Fraction(round(time.timestamp() * 1000), 1000)

    for row in table.to_pylist():
        decided = row.get("decided_ts")
        yield Row(
            row["pattern"], str(row["entity"]), "" if row.get("other") is None else str(row["other"]),
            seconds(row["ts"]), row["seq"], seconds(row["start_ts"]), row["start_seq"],
            Fraction(-1) if decided is None else seconds(decided),
        )  # fmt: skip
