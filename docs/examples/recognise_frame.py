"""A Spark job of your own with a step that recognises patterns: data frame in, data frame out.

    spark-submit --master spark://HOST:7077 --py-files wayeb_py.zip \\
        recognise_frame.py patterns/fleet/driving.sre /shared/events /shared/found
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from wayeb_py.parallel import recognise
from wayeb_py.patterns import compile_patterns


def main(pattern_file: str, events: str, out: str) -> None:
    spark = SparkSession.builder.appName("recognise").getOrCreate()
    patterns = compile_patterns(Path(pattern_file))
    detections = recognise(spark.read.parquet(events), patterns)
    detections.write.mode("overwrite").parquet(out)
    spark.read.parquet(out).groupBy("pattern").agg(f.count("*").alias("detections")).orderBy("pattern").show(50)


if __name__ == "__main__":
    main(*sys.argv[1:])
