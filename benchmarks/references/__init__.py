"""The same patterns without automata, in numpy, Polars and Spark's window functions: what ours is compared with."""
