"""Recognition on Apache Spark: the only package that may import pyspark.

    batch:   files or a data frame ──▶ schemes (source · partition · pattern) ──▶ parcels of detections ──▶ output
    stream:  log (folder · Kafka · replay) ──▶ recognised where it is read, or repartitioned ──▶ parcels ──▶ sinks

Nothing here adds to what a pattern means: every task feeds a `wayeb_py.Recogniser`.
"""
