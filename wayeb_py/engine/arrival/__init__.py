"""What a caller has becomes events in order: tables, types, entity numbers, lateness, the clock, cleaning."""
