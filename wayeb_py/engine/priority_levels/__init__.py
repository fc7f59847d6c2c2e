"""What has arrived becomes work by level: the urgent first, late answers marked, and what waits too long skipped."""
