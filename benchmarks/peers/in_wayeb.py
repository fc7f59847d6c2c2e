"""Ours: the patterns as benchmarks/inputs/peers.sre has them, over an Arrow table, with as many threads as the others.

The table is as pyarrow reads it, text as text. Our own reader would bring the dictionaries of the file instead, and
halve the time; this form is that of a user with a table at hand.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import BENCHMARKS, N_THREADS
from benchmarks.peers.peer import Form
from benchmarks.peers.peer_process import NEEDED, answer

PATTERNS = BENCHMARKS / "inputs" / "peers.sre"
FORM = Form(
    "wayeb",
    "wayeb_py",
    "in_wayeb",
    "the .sre file",
    written=("../inputs/six.sre", "../inputs/peers.sre", "in_wayeb.py"),
)


def main() -> None:
    # lines: six
    import wayeb_py

    compiled = wayeb_py.compile(PATTERNS)

    def recognise(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
        recogniser = wayeb_py.Recogniser(compiled.select(names), workers=N_THREADS, order="sorted")
        return pa.concat_tables([recogniser.feed(events).to_arrow(), recogniser.finish().to_arrow()])

    # lines: end
    answer(lambda path: pq.read_table(path, columns=NEEDED), recognise)


if __name__ == "__main__":
    main()
