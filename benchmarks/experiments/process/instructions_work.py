"""The work whose instructions are counted: a process that marks, for callgrind, where each piece begins and ends.

    python -m benchmarks.experiments.process.instructions_work           runs it, and compiles kernels
    valgrind --tool=callgrind --instr-atstart=no … the same      leaves a count for each piece

Every piece runs over n events and over twice as many, after one run that makes what is made once; the fixed cost of a
call is in both counts. The marks are valgrind's client requests, instructions that change nothing on a processor and
that valgrind knows; they are written here as bytes, so that no compiler is needed. Counting whole processes instead
would have to run each piece apart, and to count Python's start each time.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import shapely

import wayeb_py
from benchmarks.experiments import places, spatial
from benchmarks.inputs.fleet_events import SIX_PATTERNS, read_fleet
from benchmarks.inputs.pattern_sets import forty_eight, write_sre
from wayeb_py.spatial.index import OFTEN, PlaceIndex
from wayeb_py.spatial.shapes import shapes_of

N_EVENTS = 50_000
N_ALONE = 100  # fed one by one
N_SHORE = 2_000  # vertices

# mov rax, rdi; mov rdx, rsi; rol rdi, 3; rol rdi, 13; rol rdi, 61; rol rdi, 51; xchg rbx, rbx; mov rax, rdx; ret
_REQUEST = bytes.fromhex("4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3")
_CALLGRIND = ord("C") << 24 | ord("T") << 16
_ZERO, _DUMP_AT, _START, _STOP = (_CALLGRIND + number for number in (1, 3, 4, 5))

Piece = Callable[[int], int]  # works on a number of events, and returns how many detections it found


class Marks:
    """Starts and ends counting; without valgrind it does nothing."""

    def __init__(self) -> None:
        self._code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(_REQUEST)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._code))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(address)

    def begin(self) -> None:
        self._ask(_ZERO)
        self._ask(_START)

    def end(self, name: str) -> None:
        """Writes what was counted since `begin` to a file with the name in it."""
        self._ask(_STOP)
        text = ctypes.create_string_buffer(name.encode())
        self._ask(_DUMP_AT, ctypes.addressof(text))

    def _ask(self, request: int, argument: int = 0) -> None:
        arguments = (ctypes.c_uint64 * 6)(request, argument)
        self._call(ctypes.addressof(arguments), 0)


def pieces() -> Iterator[tuple[str, int, Piece]]:
    """The main kernels, each for a number of events: letters and automata, a call, lookups, places by `for each`."""
    fleet = read_fleet(2 * N_EVENTS)
    for name, source in (("six patterns", SIX_PATTERNS), ("48 patterns", write_sre(forty_eight()))):
        yield name, N_EVENTS, _recognising(wayeb_py.compile(source), fleet)
    yield "six patterns, an event by itself", N_ALONE, _recognising_one_by_one(wayeb_py.compile(SIX_PATTERNS), fleet)
    dice = np.random.default_rng(spatial.SEED)
    bearing = np.linspace(0.0, 2 * np.pi, N_SHORE, endpoint=False)
    radius = spatial.shore(dice, N_SHORE)
    walk = np.column_stack([4.0 * radius * np.cos(bearing), 50.0 + 3.0 * radius * np.sin(bearing)])
    lon, lat = spatial.positions(dice, walk, max(OFTEN, 2 * N_EVENTS))
    area = PlaceIndex(shapes_of(np.array([shapely.Polygon(walk)], dtype=object), True))
    yield "inside an area", N_EVENTS, lambda n: int(area.inside(lon[:n], lat[:n]).sum())
    coast = PlaceIndex(shapes_of(np.array([shapely.LinearRing(walk)], dtype=object), False))
    coast.near(lon, lat, spatial.COAST_REACH_M)  # after this many positions it makes cells
    yield "near a coast", N_EVENTS, lambda n: int(coast.near(lon[:n], lat[:n], spatial.COAST_REACH_M).sum())
    ports = places.make_ports(dice)
    vessels = places.make_events(dice, ports, 2 * N_EVENTS // places.N_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        each, _ = places.write_patterns(Path(folder), ports)
        yield "for each of 220 ports", N_EVENTS, _recognising(wayeb_py.compile(each), vessels)


def _recognising(patterns: wayeb_py.Patterns, events: pa.Table) -> Piece:
    def recognise(n: int) -> int:
        # One worker: threads that wait for each other would give random counts.
        return len(wayeb_py.Recogniser(patterns, workers=1, order="sorted").feed(events.slice(0, n)))

    return recognise


def _recognising_one_by_one(patterns: wayeb_py.Patterns, events: pa.Table) -> Piece:
    # Counting starts when it is warm: Python makes its own code faster during the first events.
    batches = [events.slice(at, 1).combine_chunks().to_batches()[0] for at in range(10 * N_ALONE)]
    recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted")
    for batch in batches[: -2 * N_ALONE]:
        recogniser.feed(batch)
    warm = recogniser.save()

    def recognise(n: int) -> int:
        recogniser = wayeb_py.Recogniser(patterns, workers=1, order="sorted", saved=warm)
        for batch in batches[-2 * N_ALONE :][:n]:
            recogniser.feed(batch)
        return recogniser.counts.events

    return recognise


def main() -> None:
    pa.set_cpu_count(1)
    marks = Marks()
    found: dict[str, list[int]] = {}
    for name, n, piece in pieces():
        piece(n)
        found[name] = [n]
        for n_events in (n, 2 * n):
            gc.collect()
            gc.disable()
            marks.begin()
            found[name].append(piece(n_events))
            marks.end(f"{name} of {n_events}")
            gc.enable()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
