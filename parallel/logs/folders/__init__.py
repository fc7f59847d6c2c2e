"""Folders in which files appear, on a disk or in a store, as logs: looks, a journal, ranges of files, their rows."""
