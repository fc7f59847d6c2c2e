"""The codes of a chunk become found matches: encoders, cohorts of patterns, and what steps their automata."""
