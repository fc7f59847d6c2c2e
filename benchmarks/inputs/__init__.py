"""What the experiments run on: events and patterns, made once or enumerated."""
