"""Bytes of files become arrays, in compiled loops."""
