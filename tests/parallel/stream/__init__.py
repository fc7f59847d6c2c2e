"""Tests of streams: batches, schemes, sinks."""
