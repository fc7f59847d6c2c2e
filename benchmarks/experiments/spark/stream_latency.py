"""Measures the time from an event offered to its detection out of a stream on Spark, at rates that the stream holds.

A replay of the fleet offers events at a rate; a detection is out when the batch that holds it is in the sink, a folder
of Parquet files. Checkpoints are on, batches follow one another without a pause, and the stream looks for the six
patterns.

analysis: an event waits for the batch before its own to end, and then for its own: half a batch and a whole one in the
mean, at most two. So latency is what a batch costs, and where it grows with the rate, events cost more than the
batch itself does.
"""

from __future__ import annotations

import wayeb_py
from benchmarks.harness.measure import Figure, start
from benchmarks.inputs.fleet_events import SIX_PATTERNS, fleet_file
from benchmarks.replays.watched_replay import LIMIT, Setup, Subject, recognisers, replay
from wayeb_py.parallel.stream.plan import Scheme

N_CORES = 2
SCHEMES: tuple[Scheme, ...] = ("source", "partition")
# Events of the data, seconds of a run, events a second, schemes.
SIZES = {
    "quick": (100_000, 1.0, [10_000.0], SCHEMES[:1]),
    "usual": (2_000_000, 20.0, [1_000.0, 10_000.0, 100_000.0], SCHEMES),
    "full": (2_000_000, 120.0, [1_000.0, 10_000.0, 100_000.0, 1_000_000.0], SCHEMES),
}


def main() -> None:
    experiment = start("stream_latency", f"from an event offered to its detection out, six patterns, local[{N_CORES}]")
    n_events, seconds, rates, schemes = SIZES[experiment.size]
    subject = Subject("fleet", fleet_file(n_events), wayeb_py.compile(SIX_PATTERNS))
    natural = subject.events_per_s()
    with recognisers(N_CORES, quick=experiment.size == "quick") as session:
        for place, scheme in enumerate(schemes):
            for number, rate in enumerate(rates):
                experiment.progress.step(place * len(rates) + number + 1, len(schemes) * len(rates), f"{scheme}: run")
                run = replay(experiment, session, Setup(subject, scheme, N_CORES, N_CORES, rate / natural), seconds)
                for name, ms in run.quantiles_ms().items():
                    experiment.row(
                        scheme=scheme,
                        rate=f"{rate:,.0f}/s",
                        quantile=name,
                        ms=ms,
                        **{"back-pressure": run.steady.ratio, "taken events/s": run.steady.taken_per_s},
                        detections=len(run.latency_s),
                        batches=run.steady.batches,
                    )
                if run.steady.ratio >= LIMIT:
                    experiment.note(f"{scheme} does not hold {rate:,.0f} events/s: its latency leaves out the waiting")
    experiment.figure(Figure("Latency of a stream", "rate", "ms", "quantile", panel="scheme", kind="bars"))
    experiment.finish()


if __name__ == "__main__":
    main()
