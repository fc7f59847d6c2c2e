"""What comes next: the words of the past become a Markov chain over a pattern's symbols, and it the time to wait."""
