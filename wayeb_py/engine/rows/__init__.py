"""What was found becomes rows: their columns, the table of detections, episodes."""
