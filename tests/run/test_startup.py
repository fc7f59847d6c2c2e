"""What a process has compiled ahead is all that its runs need, whatever the patterns need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.spatial.test_way_patterns import write_places

PATTERNS = """
stream ships {
    key id
    time ts in s
    position lon, lat
    lateness 5 min
    clean ais
    motion speed, course
    attr speed number in kn
    attr course number in deg
    attr name text
}
areas zone from "zone.wkt"
lines coast from "coast.wkt"
points port from "ports.csv"
pattern Slow    := (speed < 1){2} within 1 h
pattern Turned  := (angle(course, prev(course)) > 30 deg and held(speed) > 1 min)
pattern Entered for each p in port := (distance(p) > 50 km) ; (distance(p) < 50 km)
pattern Over    := (crossed(zone) or passed(coast, 60 km) or inside(zone) or near(port, 60 km))
pattern Gone    := (speed < 1) ; silence 20 min
pattern Again   := (since(Slow) > 1 min and name = "Ann")
pattern Meeting for each pair a, b in ships within 60 km fresh 10 min := (distance(a, b) < 50 km and cpa(a, b) < 9 km)
"""
PROGRAM = """
import json, sys
from numba.core import event
from wayeb_py.run.startup import compile_kernels
compile_kernels()
from wayeb_py.kernels.compiled import Kernel
late, load = [], Kernel._load
Kernel._load = lambda kernel, kind: late.append(kernel.__name__) or load(kernel, kind)
import pyarrow as pa
import wayeb_py
who = [(step, ship) for step in range(400) for ship in range(4) if step < 302 or ship < 3]
events = pa.table({
    "id": [ship for _, ship in who], "ts": [80 * step + ship for step, ship in who],
    "lon": [0.012 * step + 0.01 * ship - 2.5 for step, ship in who], "lat": [0.01 * ship for _, ship in who],
    "speed": [float(step // 2 % 3) for step, _ in who], "course": [40.0 * (step % 9) for step, _ in who],
    "name": ["Ann" if step % 5 else None for step, _ in who],
})
with event.install_recorder("numba:compile") as compiled:
    found = wayeb_py.compile(sys.argv[1]).recognise(events)
print(json.dumps([found.counts(), late, [str(happened.data) for _, happened in compiled.buffer]]))
"""


def test_a_run_needs_no_kernel_that_was_not_compiled_ahead(tmp_path: Path) -> None:
    write_places(tmp_path)
    (tmp_path / "all.sre").write_text(PATTERNS)
    ran = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "all.sre"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    counts, loaded_late, compiled = json.loads(ran.stdout)
    assert set(counts) == {"Slow", "Turned", "Entered", "Over", "Gone", "Again", "Meeting"}
    assert min(counts.values()) > 0
    assert (loaded_late, compiled) == ([], [])
