"""Learns a Markov chain over a pattern's symbols from past words, and computes when the pattern comes next."""
