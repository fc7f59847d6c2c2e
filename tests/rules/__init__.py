"""Tests of rules: from the text of a file to its matches, against an oracle straight from the definitions."""
