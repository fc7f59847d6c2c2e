"""Tests of the language: texts, trees, messages, meaning."""
