"""A stream in one process: the same files, logs, sinks and snapshots as on Spark, in milliseconds and without Java."""
