"""Batches of events become detections, and state stays: the recogniser, and what it binds, encodes and steps."""
