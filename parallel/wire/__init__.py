"""The form in which events and detections travel through Spark: parcels of whole Arrow tables, cut by shard."""
