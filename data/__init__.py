"""Small data that the repository ships, and generators that make any amount of it."""
