"""Tests of compilation: minterms, automata, budgets."""
