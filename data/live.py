"""The maritime sample as a coastal station would hear it: AIS sentences over UDP into `wayeb stream --engine local`.

    python data/live.py --speed 3600      the sample's half day in twelve seconds

Starts the stream, sends each position when its time has come, shows the rates, stops the stream, and ends.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyais.encode import encode_dict

ROOT = Path(__file__).parent.parent
STATUSES = {"under way": 0, "at anchor": 1, "moored": 5, "fishing": 7}


def sentences(rows: list[dict[str, Any]]) -> Iterator[tuple[float, bytes]]:
    """When each position was heard, in seconds since 1970, and its sentence after a tag block with that time."""
    for row in rows:
        at_s = row["ts"].timestamp()
        told = {name: row[name] for name in ("mmsi", "lon", "lat", "speed", "course") if row[name] is not None}
        told |= {"type": 1, "status": STATUSES.get(row["status"], 15)}
        if row["heading"] is not None:
            told["heading"] = int(row["heading"])
        (sentence,) = encode_dict(told, talker_id="AI")
        tag = f"c:{round(at_s * 1000)}"
        checksum = reduce(lambda total, octet: total ^ octet, tag.encode(), 0)
        yield at_s, f"\\{tag}*{checksum:02X}\\{sentence}\r\n".encode()


def free_port() -> int:
    """A port of this machine that is free at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def send(heard: list[tuple[float, bytes]], port: int, speed: float) -> float:
    """Sends every sentence when its time has come; how long that took."""
    began_s, first_s = time.monotonic(), heard[0][0]
    told_s = began_s
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number, (at_s, sentence) in enumerate(heard, start=1):
            wait_s = began_s + (at_s - first_s) / speed - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            sender.sendto(sentence, ("127.0.0.1", port))
            if time.monotonic() - told_s >= 1.0:
                told_s = time.monotonic()
                print(f"    sent {number:,} sentences, {number / (told_s - began_s):,.0f}/s", flush=True)
    return time.monotonic() - began_s


def main() -> int:
    reading = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reading.add_argument("--speed", type=float, default=3600.0, help="times faster than it was (3600)")
    reading.add_argument("--out", type=Path, default=ROOT / "out/live")
    reading.add_argument("--most", type=int, help="sentences, all by default")
    asked = reading.parse_args()
    rows = pq.read_table(ROOT / "data/maritime_sample.parquet").slice(0, asked.most).to_pylist()
    heard = list(sentences(rows))
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    port = free_port()
    address = f"nmea+udp://127.0.0.1:{port}"
    print(f"==> wayeb stream patterns/maritime.sre --source {address} --engine local --journal …", flush=True)
    command = [
        sys.executable, "-m", "wayeb_py.cli", "stream", "patterns/maritime.sre", "--engine", "local",
        "--source", address, "--out", str(asked.out / "found"), "--checkpoint", str(asked.out / "state"),
        "--journal", str(asked.out / "journal"), "--clean", "ais", "--lateness", "10s", "--log", "json",
        "--metrics-file", str(asked.out / "metrics.ndjson"),
    ]  # fmt: skip
    with open(asked.out / "said.ndjson", "w+b") as said:
        stream = subprocess.Popen(command, cwd=ROOT, stderr=said)
        try:
            wait_for(asked.out / "journal/0", stream)
            print(f"==> the sample as AIS sentences, {asked.speed:g} times faster than they were", flush=True)
            took_s = send(heard, port, asked.speed)
            wait_until_taken(asked.out / "metrics.ndjson", len(heard), stream)
        finally:
            stream.send_signal(signal.SIGTERM)
            code = stream.wait(60)
    told = [json.loads(line) for line in (asked.out / "said.ndjson").read_text().splitlines()]
    ended = next((line for line in told if line["event"] == "ended"), None)
    if code or ended is None:
        print((asked.out / "said.ndjson").read_text()[-2000:], file=sys.stderr)
        return code or 1
    print(f"==> {len(heard):,} sentences in {took_s:.1f} s: {len(heard) / took_s:,.0f}/s sent")
    n_waiting = ended["rows"] - ended["events"] - sum(ended["bad"].values())
    print(
        f"    {ended['rows']:,} received, {ended['events']:,} recognised in {ended['batches']} batches; {n_waiting:,}, "
        "the last ones of each vessel, wait for what may still come before them (--lateness 10s)"
    )
    print(f"    {sum(ended['detections'].values()):,} detections of {len(ended['detections'])} patterns and rules")
    for name, count in sorted(ended["detections"].items(), key=lambda one: -one[1])[:8]:
        print(f"      {count:6,}  {name}")
    print(f"==> the detections: {asked.out / 'found'}")
    return 0


def wait_for(path: Path, stream: subprocess.Popen[bytes]) -> None:
    """Returns when the stream listens: it has then begun its journal."""
    while not any(path.glob("*.journal")):
        if stream.poll() is not None:
            raise SystemExit("the stream did not start; see said.ndjson")
        time.sleep(0.05)


def wait_until_taken(metrics: Path, n_rows: int, stream: subprocess.Popen[bytes]) -> None:
    """Returns when the stream has taken everything, or takes nothing more for some seconds: a datagram may be lost."""
    seen, since_s = 0.0, time.monotonic()
    while seen < n_rows and stream.poll() is None and time.monotonic() - since_s < (5 if seen else 120):
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        now = sum(json.loads(lines[-1])["sums"].get("rows", {}).values()) if lines else 0.0
        if now > seen:
            seen, since_s = now, time.monotonic()
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
