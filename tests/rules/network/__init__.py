"""Tests of networks of rules over arrays: joins, absence, plans, against nested loops."""
