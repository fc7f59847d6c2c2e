"""A log becomes a running stream: the source plans, the tasks recognise, the sinks write."""
