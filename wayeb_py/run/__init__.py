"""Patterns and paths become a file of detections on one machine; the examples of a pattern file are run."""
