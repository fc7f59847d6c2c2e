"""Tests of the parts of a stream in which rows of rules meet by a key."""
