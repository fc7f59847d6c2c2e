"""Recognition on Apache Spark: the only package that may import pyspark."""
