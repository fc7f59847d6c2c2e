"""The compiled loop for a few events: one call from values to detections."""
