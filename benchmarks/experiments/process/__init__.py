"""The experiments on what one process costs: its start, its memory, an event by itself, a call, instructions."""
