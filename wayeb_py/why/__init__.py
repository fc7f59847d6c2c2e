"""Why a pattern was detected at an event, or why not: regex and automaton read the events again."""
