"""The rules of a file become something to read before and after they run: plans, bounds on their cost, measured work."""
