"""Tests of folders as logs."""
