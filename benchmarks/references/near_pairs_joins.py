"""Events of pairs as joins of tables: DuckDB and Polars, on one core.

A cell is twice as large as the reach, so an event looks up the four around its nearest corner: a sixth faster
in Polars than nine cells as large as the reach, and the same in DuckDB. A range join joins by the cell and compares
times, as a user would write it: it looks at all events of a cell, whatever their time. `in_buckets` also cuts time into
pieces of some seconds and joins by those, which takes work by hand; 5, 10, 20 and 40 s were tried. Both engines get the
unit vectors by their own sines, and compare chords, which needs no more trigonometry for a candidate. Polars runs its
streaming engine, which was the faster one. Both have one thread; the table is in each engine's own memory before the
clock starts, in order, vessels numbered; cells, vectors, the next event of each vessel, join and sums are timed.
"""

from __future__ import annotations

import os

from benchmarks.references.near_pairs import LAST, MODULUS, TIMES_EVENT, TIMES_VESSEL, Answer, Heard

BUCKET_S = 10
ROW = 1_000_000  # from a cell to the one north of it
AROUND = [row + column for row in (-ROW, 0) for column in (-1, 0)]  # the four cells around a corner

QUERY = """
WITH e AS (
    SELECT n, vessel, t, lead(n, 1, {last}) OVER w AS until, lead(t, 1, {last}) OVER w AS until_t,
        cos(radians(lat)) * cos(radians(lon)) AS x, cos(radians(lat)) * sin(radians(lon)) AS y, sin(radians(lat)) AS z,
        CAST(floor(lat / {height!r}) AS BIGINT) * {row} + CAST(floor(lon / {width!r}) AS BIGINT) AS cell,
        CAST(round(lat / {height!r}) AS BIGINT) * {row} + CAST(round(lon / {width!r}) AS BIGINT) AS corner
    FROM events WINDOW w AS (PARTITION BY vessel ORDER BY n)
),
around AS (SELECT unnest({around}) AS step),
newest AS (SELECT n, vessel, t, until, x, y, z, cell{in_buckets} FROM e),
asking AS (SELECT n, vessel, t, x, y, z, corner + step AS cell{in_bucket} FROM e, around)
SELECT count(*), sum((a.n * {times_event} + b.vessel * {times_vessel}) % {modulus})
FROM asking a JOIN newest b ON a.cell = b.cell{same_bucket} AND b.n < a.n AND a.n < b.until
WHERE a.t - b.t <= {fresh} AND a.vessel <> b.vessel
    AND (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) + (a.z - b.z) * (a.z - b.z) <= {square!r}
"""


class InDuckDB:
    """DuckDB over a table of its own, which is made before any clock starts."""

    def __init__(self, heard: Heard, in_buckets: bool) -> None:
        import duckdb

        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        self._database.register("arrow", heard.table())
        self._database.execute("CREATE TABLE events AS SELECT * FROM arrow")
        width, height = (2 * side for side in heard.cell_deg())
        last = f"least(until_t, t + {heard.fresh_s}) // {BUCKET_S}"
        parts = {
            "in_buckets": f", unnest(generate_series(t // {BUCKET_S}, {last})) AS bucket",
            "in_bucket": f", t // {BUCKET_S} AS bucket",
            "same_bucket": " AND a.bucket = b.bucket",
        }
        self._query = QUERY.format(
            last=LAST, height=height, width=width, row=ROW, around=AROUND, fresh=heard.fresh_s,
            times_event=TIMES_EVENT, times_vessel=TIMES_VESSEL, modulus=MODULUS, square=heard.reach_chord**2,
            **(parts if in_buckets else dict.fromkeys(parts, "")),
        )  # fmt: skip

    def __call__(self) -> Answer:
        row = self._database.execute(self._query).fetchone()
        assert row is not None
        return Answer(int(row[0]), int(row[1] or 0))


class InPolars:
    """Polars over its own frame, which is made before any clock starts."""

    def __init__(self, heard: Heard, in_buckets: bool) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # Polars reads it at its first import
        import polars as pl

        frame = pl.from_arrow(heard.table())
        assert isinstance(frame, pl.DataFrame)
        self._frame, self._heard, self._in_buckets = frame, heard, in_buckets

    def __call__(self) -> Answer:
        import polars as pl

        col, heard = pl.col, self._heard
        width, height = (2 * side for side in heard.cell_deg())
        a, b = col("lon").radians(), col("lat").radians()
        events = self._frame.lazy().with_columns(
            until=col("n").shift(-1).over("vessel").fill_null(LAST),
            until_t=col("t").shift(-1).over("vessel").fill_null(LAST),
            x=b.cos() * a.cos(),
            y=b.cos() * a.sin(),
            z=b.sin(),
            cell=(col("lat") / height).floor().cast(pl.Int64) * ROW + (col("lon") / width).floor().cast(pl.Int64),
            corner=(col("lat") / height).round().cast(pl.Int64) * ROW + (col("lon") / width).round().cast(pl.Int64),
            bucket=col("t") // BUCKET_S,
        )
        last = pl.min_horizontal("until_t", col("t") + heard.fresh_s) // BUCKET_S
        names = {"n": "b_n", "vessel": "b_vessel", "t": "b_t", "x": "b_x", "y": "b_y", "z": "b_z"}
        keys = ["cell", "bucket"] if self._in_buckets else ["cell"]
        newest = (
            events.with_columns(bucket=pl.int_ranges("bucket", last + 1)).explode("bucket")
            if self._in_buckets
            else events
        ).select(*keys, "until", *(col(name).alias(other) for name, other in names.items()))
        steps = pl.LazyFrame({"step": AROUND}, schema={"step": pl.Int64})
        asking = (
            events.select("n", "vessel", "t", "x", "y", "z", "corner", "bucket")
            .join(steps, how="cross")
            .with_columns(cell=col("corner") + col("step"))
        )
        square = sum(((col(axis) - col(f"b_{axis}")) ** 2 for axis in ("y", "z")), (col("x") - col("b_x")) ** 2)
        found = asking.join(newest, on=keys).filter(
            col("b_n") < col("n"),
            col("n") < col("until"),
            col("t") - col("b_t") <= heard.fresh_s,
            col("vessel") != col("b_vessel"),
            square <= heard.reach_chord**2,
        )
        told = (col("n") * TIMES_EVENT + col("b_vessel").cast(pl.Int64) * TIMES_VESSEL) % MODULUS
        row = found.select(pl.len().alias("count"), told.sum().alias("sum")).collect(engine="streaming").row(0)
        return Answer(int(row[0]), int(row[1]))
