"""The same patterns without automata, in numpy, Polars and Spark's window functions: the yardsticks of ours."""
