"""Tests of folders and topics as logs."""
