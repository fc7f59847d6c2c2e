"""Files or a data frame of events become an output folder or a data frame of detections, by a plan."""
