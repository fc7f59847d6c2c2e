"""Tables become files that appear whole or not at all, and rows that are no events a file of their own."""
