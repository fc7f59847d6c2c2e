"""Tests of streams that are killed, damaged or cut off from power."""
