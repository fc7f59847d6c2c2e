"""Checked patterns become automata: predicates become cells and minterms, regexes derivatives, patterns products.

Nothing here sees an event.
"""
