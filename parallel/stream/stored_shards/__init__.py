"""How shards keep their state where a checkpoint is in a store: as objects, and without Spark's state store."""
