"""Conditions on times become differences of moments, these bounds, and these how long rows are kept; with sentences."""
