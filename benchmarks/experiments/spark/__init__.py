"""The experiments that run on Spark, and the simulation of larger clusters."""
