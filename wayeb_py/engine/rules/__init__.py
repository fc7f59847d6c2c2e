"""What the clock has passed becomes rows of tables, and the matches of rules in them become detections."""
