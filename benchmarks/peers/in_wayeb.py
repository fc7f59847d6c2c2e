"""Our engine: the patterns of benchmarks/inputs/peers.sre over an Arrow table, with as many threads as the others.

The table is as pyarrow reads it, text as text. Our own reader would bring the dictionaries of the file instead, and
halve the time; this form is that of a user with a table at hand.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import BENCHMARKS, N_THREADS
from benchmarks.peers.peer import Form
from benchmarks.peers.peer_process import NEEDED, answer

PATTERNS = BENCHMARKS / "inputs" / "peers.sre"
MATCHES = BENCHMARKS / "inputs" / "matches.sre"
FORM = Form(
    "wayeb",
    "wayeb_py",
    "in_wayeb",
    "the .sre file",
    written=("../inputs/six.sre", "../inputs/peers.sre", "in_wayeb.py"),
)


def with_measures(found: pa.Table) -> pa.Table:
    """The detections with what they measure in their names: milliseconds, events, and for SpeedSwing the top speed."""
    took = pc.cast(pc.round(pc.multiply(found["took"], 1000.0)), pa.int64())
    name = found["pattern"].cast(pa.string())
    texts = [name, took.cast(pa.string()), found["n"].cast(pa.string())]
    plain = pc.binary_join_element_wise(*texts, " ")
    top = pc.cast(pc.floor(found["top"].cast(pa.float64())), pa.int64()).cast(pa.string())
    with_top = pc.binary_join_element_wise(plain, top, " ")
    named = pc.if_else(pc.equal(name, "MeasuredSpeedSwing"), with_top, plain)
    return found.set_column(found.schema.get_field_index("pattern"), "pattern", named)


def main() -> None:
    # lines: six
    import wayeb_py

    compiled = wayeb_py.compile(PATTERNS)

    def recognise(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
        recogniser = wayeb_py.Recogniser(compiled.select(names), workers=N_THREADS, order="sorted")
        return pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])

    # lines: end
    @cache  # the cold start of the others does not pay for it
    def of_matches() -> wayeb_py.Patterns:
        return wayeb_py.compile(MATCHES)

    def recognise_any(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
        if set(names) <= set(compiled.names):
            return recognise(events, names)
        recogniser = wayeb_py.Recogniser(of_matches().select(names), workers=N_THREADS, order="sorted")
        found = pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])
        return with_measures(found) if "took" in found.column_names else found

    answer(lambda path: pq.read_table(path, columns=NEEDED), recognise_any)


if __name__ == "__main__":
    main()
