"""What a file holds becomes blocks of events: one format a file, and what all of them share."""
