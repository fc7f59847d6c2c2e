"""Patterns and rules over several entities, and files with several streams, as a batch on Spark."""
