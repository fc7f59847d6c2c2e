"""The rules of a file become something to read before and after they run: plans, bounds on cost, measured work."""
