"""A caller's data become events in order: tables, types, entity numbers, lateness, the clock, cleaning."""
