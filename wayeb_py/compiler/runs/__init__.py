"""Patterns that remember events: names become marks, tests become questions to runs of the automaton, runs are
compared."""
