"""Regular expressions over minterms become automata: derivatives, minimal automata, tracked starts, products."""
