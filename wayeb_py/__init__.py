"""Recognises patterns, written as symbolic regular expressions, in streams of moving things."""

__version__ = "0.1.0"
