"""Patterns that remember events: names become marks, tests questions to runs of the automaton; runs are compared."""
