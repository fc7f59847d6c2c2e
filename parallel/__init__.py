"""Recognition on Apache Spark: the only package that may import pyspark.

Nothing here adds to what a pattern means: every task feeds a `wayeb_py.Recogniser`. Whatever travels through Spark does
so as parcels (`parcel`): whole Arrow tables as bytes, a few rows in all.

    ground      java → launch → session → slots; daemon, class_archive let it start soon; ship sends us, bundle patterns

    batch       job: splits → planner (by a sample) → plans → schemes ─┬─ source, pattern: recognition where it is read
                                                                       └─ partition: shuffle → recognition
                → outlets → folder, or the driver's writers; recognise: the same for a data frame; task_errors

    stream      sources: folder_log (pieces) · kafka_log (kafka_topic) · replay_log (replay_store) · several_logs → log
                → chained plans stretches by offset ─┬─ stretch: live, from snapshots, read ahead by a buffer → harvest
                  (stream_schemes says which)        └─ packing → by_shard: Spark's stateful operator, by shards
                → stream gathers a batch → sinks · kafka_sink, each detection with its detection_id
                checkpoint, eras: what a restart goes on with; faults: where tests kill; stateful: any data frame

    health      gauge, pressure: how long a source waits → health (totals) → screen · lines · exporter (metrics)
                last_words: why it died

    simulation  recorded → replay → replay_targets; broker, jars: a real Kafka
"""
