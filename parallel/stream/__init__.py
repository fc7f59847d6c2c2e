"""A log becomes a running stream: the source that plans, the tasks that recognise, snapshots, checkpoint, sinks."""
